//! Faults drawn for many rounds.

use std::time::Duration;

use coracle_base::Rng;

use crate::plan::{End, Engine, RoundPlan, WRITING_MS};

fn plans(engine: Engine) -> Vec<RoundPlan> {
    let mut rng = Rng::seeded(7);
    (0..200).map(|_| RoundPlan::draw(engine, &mut rng)).collect()
}

#[test]
fn same_seed_draws_the_same_plans() {
    assert_eq!(plans(Engine::Etcd), plans(Engine::Etcd));
}

#[test]
fn all_faults_are_drawn_and_etcd_is_only_killed_where_there_is_one() {
    for engine in [Engine::Disk, Engine::Etcd] {
        let plans = plans(engine);
        let has = |fault: fn(&RoundPlan) -> bool| plans.iter().any(fault) && !plans.iter().all(fault);
        assert!(has(|plan| plan.killed_start.is_some()) && has(|plan| plan.has_controllers));
        assert!(has(|plan| plan.has_new_port));
        assert!(!plans.iter().any(|plan| plan.loses_writes), "faults that no server survives");
        assert!(RoundPlan::losing_writes().loses_writes);
        assert!(has(|plan| plan.end == End::Terminate), "{}", engine.name());
        let is_etcd = engine == Engine::Etcd;
        assert_eq!((has(|plan| plan.etcd_kill.is_some()), has(|plan| plan.ends_etcd)), (is_etcd, is_etcd));
        let limits = Duration::from_millis(WRITING_MS.0)..=Duration::from_millis(WRITING_MS.1);
        assert!(plans.iter().all(|plan| limits.contains(&plan.writing)));
    }
}
