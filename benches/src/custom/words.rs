//! Generated descriptions, as long and as varied as those of operators.

/// Beginnings of descriptions, after the name of the field.
const BEGINNINGS: [&str; 8] = [
    "defines how the operator arranges",
    "specifies the desired state of",
    "is an optional setting that controls",
    "selects which of the available forms is used for",
    "describes the part of the workload that is responsible for",
    "limits what the controller may do with",
    "references the object that provides",
    "says whether the operator takes care of",
];

const MIDDLES: [&str; 8] = [
    "the members of the cluster that run in the same zone",
    "the volumes which hold data that must survive a restart",
    "connections from clients outside the namespace",
    "credentials that were issued for the primary instance",
    "the rolling replacement of pods after their template changed",
    "health checks that decide whether traffic is sent to a member",
    "resources that every container of the workload may use",
    "the schedule on which maintenance is carried out",
];

const ENDINGS: [&str; 8] = [
    "",
    "Cannot be updated.",
    "Defaults to the value the operator was started with.",
    "If it is not set, the operator chooses a value that suits the number of members and reports it in the status.",
    "More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/",
    "Changing it causes a rolling restart of all members, one after the other, beginning with the replicas.",
    "This is an alpha field and requires that the corresponding feature gate of the operator is enabled.",
    "Must be a valid name of an object in the same namespace.",
];

/// The description of a field, the same for the same name.
pub(super) fn described(name: &str) -> String {
    // FNV-1a; any hash that distributes names over the tables would do.
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    let pick = |words: &[&'static str; 8], shift: u32| words[(hash >> shift & 7) as usize];
    let (beginning, middle, ending) = (pick(&BEGINNINGS, 8), pick(&MIDDLES, 24), pick(&ENDINGS, 40));
    let space = if ending.is_empty() { "" } else { " " };
    format!("{name} {beginning} {middle}.{space}{ending}")
}
