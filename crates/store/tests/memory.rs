//! The engine contract on the memory engine.

use coracle_base::{ManualClock, Timestamp};
use coracle_store::contract::{Fixture, PassTime};
use coracle_store::memory;

async fn fixture() -> Fixture {
    let clock = ManualClock::starting_at(Timestamp::from_millis(1_000_000));
    let store = memory::open(memory::Options { clock: clock.clock(), ..memory::Options::default() });
    Fixture::new(store, PassTime::Manual(clock), Box::new(()))
}

coracle_store::contract_suite!(fixture);
coracle_store::contract_suite_exact!(fixture);
