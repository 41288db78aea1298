//! Sample pods.

use serde_json::{Value, json};

use crate::samples::{Refused, Samples};

const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";
const FORBIDDEN: &str = "FieldValueForbidden";
const NOT_SUPPORTED: &str = "FieldValueNotSupported";
const DUPLICATE: &str = "FieldValueDuplicate";
const NOT_FOUND: &str = "FieldValueNotFound";

/// Objects that must be accepted or rejected.
pub(super) fn samples() -> Samples {
    Samples {
        valid: vec![small(), rich()],
        invalid: invalid_specs().into_iter().chain(invalid_containers()).collect(),
        updates: vec![
            json!({"spec": {"containers": [{"name": "web", "image": "nginx:2"}]}}),
            json!({"metadata": {"labels": {"a": "b"}}}),
            json!({"spec": {"activeDeadlineSeconds": 60}}),
            json!({"spec": {"tolerations": [{"operator": "Exists"}]}}),
        ],
        invalid_updates: vec![
            Refused::new(json!({"spec": {"nodeName": "other"}}), "spec", FORBIDDEN),
            Refused::new(
                json!({"spec": {"containers": [{"name": "other", "image": "nginx"}]}}),
                "spec",
                FORBIDDEN,
            ),
            Refused::new(
                json!({"spec": {"schedulingGates": [{"name": "late"}]}}),
                "spec.schedulingGates[0].name",
                FORBIDDEN,
            ),
            Refused::new(
                json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}),
                "metadata.annotations[kubernetes.io/config.mirror]",
                FORBIDDEN,
            ),
        ],
    }
}

fn pod(spec: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "sample", "namespace": "default"},
        "spec": spec
    })
}

fn small() -> Value {
    pod(json!({"containers": [{"name": "web", "image": "nginx:1"}]}))
}

/// A pod with most of its fields set.
fn rich() -> Value {
    pod(json!({
        "serviceAccountName": "robot",
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["db.local"]}],
        "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["_tcp.example.com."], "options": [{"name": "ndots", "value": "2"}]},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "os": {"name": "linux"},
        "resources": {"limits": {"cpu": "4", "memory": "4Gi"}},
        "securityContext": {
            "runAsUser": 1000, "fsGroup": 2000, "supplementalGroups": [1],
            "sysctls": [{"name": "net.ipv4.ip_local_port_range", "value": "1024 65535"}],
            "seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/web.json"}
        },
        "tolerations": [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}], "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["old"]}]}
            ]}},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 10, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}}
            ]}
        },
        "readinessGates": [{"conditionType": "example.com/ready"}],
        "volumes": [
            {"name": "scratch"},
            {"name": "config", "configMap": {"name": "web", "items": [{"key": "a", "path": "b/a"}]}},
            {"name": "token", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token"}},
                {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}
            ]}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "cache", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
            {"name": "model", "image": {"reference": "registry.example.com/model:1"}}
        ],
        "initContainers": [
            {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always", "startupProbe": {"tcpSocket": {"port": 8080}}},
            {"name": "migrate", "image": "migrate:1", "command": ["/migrate"]}
        ],
        "containers": [{
            "name": "web",
            "image": "nginx:1",
            "ports": [{"name": "http", "containerPort": 80}],
            "env": [
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
                {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "web", "key": "key"}}}
            ],
            "envFrom": [{"prefix": "WEB_", "configMapRef": {"name": "web"}}],
            "resources": {"requests": {"cpu": "0.5", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "128Mi", "example.com/gpu": 1}},
            "volumeMounts": [{"name": "scratch", "mountPath": "/tmp", "subPath": "web"}, {"name": "config", "mountPath": "/etc/web", "readOnly": true}],
            "volumeDevices": [{"name": "data", "devicePath": "/dev/xvda"}],
            "livenessProbe": {"httpGet": {"port": "http", "httpHeaders": [{"name": "Host", "value": "web"}]}},
            "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true}
        }]
    }))
}

/// A pod with one container and additional fields in its spec.
fn with(extra: Value) -> Value {
    let mut pod = small();
    if let (Some(Value::Object(spec)), Value::Object(extra)) = (pod.get_mut("spec"), extra) {
        spec.extend(extra);
    }
    pod
}

/// A pod whose only container has additional fields.
fn with_container(extra: Value) -> Value {
    let mut container = json!({"name": "web", "image": "nginx:1"});
    if let (Value::Object(fields), Value::Object(extra)) = (&mut container, extra) {
        fields.extend(extra);
    }
    pod(json!({"containers": [container], "volumes": [{"name": "v"}]}))
}

fn invalid_specs() -> Vec<Refused> {
    let refused = |extra: Value, field, reason| Refused::new(with(extra), field, reason);
    vec![
        Refused::new(pod(json!({})), "spec.containers", REQUIRED),
        refused(json!({"restartPolicy": "Sometimes"}), "spec.restartPolicy", NOT_SUPPORTED),
        refused(json!({"dnsPolicy": "None"}), "spec.dnsConfig", REQUIRED),
        refused(json!({"dnsConfig": {"nameservers": ["one"]}}), "spec.dnsConfig.nameservers[0]", INVALID),
        refused(json!({"activeDeadlineSeconds": 0}), "spec.activeDeadlineSeconds", INVALID),
        refused(json!({"hostname": "a.b"}), "spec.hostname", INVALID),
        refused(json!({"serviceAccountName": "A"}), "spec.serviceAccountName", INVALID),
        refused(json!({"volumes": [{"name": "A"}]}), "spec.volumes[0].name", INVALID),
        refused(json!({"volumes": [{"name": "a"}, {"name": "a"}]}), "spec.volumes[1].name", DUPLICATE),
        refused(
            json!({"volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/"}}]}),
            "spec.volumes[0].hostPath",
            FORBIDDEN,
        ),
        refused(
            json!({"volumes": [{"name": "a", "secret": {}}]}),
            "spec.volumes[0].secret.secretName",
            REQUIRED,
        ),
        refused(
            json!({"volumes": [{"name": "a", "hostPath": {"path": "/a/../b"}}]}),
            "spec.volumes[0].hostPath.path",
            INVALID,
        ),
        refused(
            json!({"volumes": [{"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "a"}}]}}]}),
            "spec.volumes[0].projected.sources[0].serviceAccountToken",
            FORBIDDEN,
        ),
        refused(json!({"tolerations": [{"value": "x"}]}), "spec.tolerations[0].operator", INVALID),
        refused(
            json!({"tolerations": [{"operator": "Exists", "tolerationSeconds": 1}]}),
            "spec.tolerations[0].effect",
            INVALID,
        ),
        refused(
            json!({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}]}),
            "spec.topologySpreadConstraints[0].maxSkew",
            INVALID,
        ),
        refused(
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}}),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
            REQUIRED,
        ),
        refused(
            json!({"securityContext": {"sysctls": [{"name": "Foo", "value": "1"}]}}),
            "spec.securityContext.sysctls[0].name",
            INVALID,
        ),
        refused(json!({"securityContext": {"runAsUser": -1}}), "spec.securityContext.runAsUser", INVALID),
        refused(json!({"os": {"name": "plan9"}}), "spec.os", NOT_SUPPORTED),
        refused(json!({"hostUsers": false, "hostPID": true}), "spec.HostPID", FORBIDDEN),
        refused(json!({"schedulingGates": [{"name": "a"}], "nodeName": "n"}), "spec.nodeName", FORBIDDEN),
        refused(
            json!({"ephemeralContainers": [{"name": "debug", "image": "b"}]}),
            "spec.ephemeralContainers",
            FORBIDDEN,
        ),
        refused(
            json!({"initContainers": [{"name": "a", "image": "b", "livenessProbe": {"exec": {"command": ["x"]}}}]}),
            "spec.initContainers[0].livenessProbe",
            FORBIDDEN,
        ),
        refused(
            json!({"resources": {"limits": {"ephemeral-storage": "1"}}}),
            "spec.resources.limits[ephemeral-storage]",
            NOT_SUPPORTED,
        ),
    ]
}

fn invalid_containers() -> Vec<Refused> {
    let refused = |extra: Value, field, reason| Refused::new(with_container(extra), field, reason);
    vec![
        refused(json!({"name": ""}), "spec.containers[0].name", REQUIRED),
        refused(json!({"name": "Web"}), "spec.containers[0].name", INVALID),
        refused(json!({"image": ""}), "spec.containers[0].image", REQUIRED),
        refused(json!({"image": " nginx"}), "spec.containers[0].image", INVALID),
        refused(json!({"imagePullPolicy": "Maybe"}), "spec.containers[0].imagePullPolicy", NOT_SUPPORTED),
        refused(
            json!({"ports": [{"containerPort": 70000}]}),
            "spec.containers[0].ports[0].containerPort",
            INVALID,
        ),
        refused(json!({"ports": [{}]}), "spec.containers[0].ports[0].containerPort", REQUIRED),
        refused(
            json!({"ports": [{"containerPort": 1, "hostPort": 1}, {"containerPort": 2, "hostPort": 1}]}),
            "spec.containers[0].ports[1].hostPort",
            DUPLICATE,
        ),
        refused(json!({"env": [{"name": "a=b"}]}), "spec.containers[0].env[0].name", INVALID),
        refused(
            json!({"env": [{"name": "a", "valueFrom": {}}]}),
            "spec.containers[0].env[0].valueFrom",
            INVALID,
        ),
        refused(json!({"envFrom": [{}]}), "spec.containers[0].envFrom", INVALID),
        refused(
            json!({"volumeMounts": [{"name": "w", "mountPath": "/w"}]}),
            "spec.containers[0].volumeMounts[0].name",
            NOT_FOUND,
        ),
        refused(
            json!({"volumeMounts": [{"name": "v", "mountPath": "/w"}, {"name": "v", "mountPath": "/w"}]}),
            "spec.containers[0].volumeMounts[1].mountPath",
            INVALID,
        ),
        refused(
            json!({"volumeDevices": [{"name": "v", "devicePath": "/w"}]}),
            "spec.containers[0].volumeDevices[0].name",
            INVALID,
        ),
        refused(
            json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}),
            "spec.containers[0].resources.requests",
            INVALID,
        ),
        refused(
            json!({"resources": {"limits": {"cpu": "-1"}}}),
            "spec.containers[0].resources.limits[cpu]",
            INVALID,
        ),
        refused(
            json!({"resources": {"limits": {"gpu": "1"}}}),
            "spec.containers[0].resources.limits[gpu]",
            INVALID,
        ),
        refused(
            json!({"resources": {"requests": {"example.com/gpu": "1"}}}),
            "spec.containers[0].resources.limits",
            REQUIRED,
        ),
        refused(json!({"livenessProbe": {}}), "spec.containers[0].livenessProbe", REQUIRED),
        refused(
            json!({"livenessProbe": {"tcpSocket": {"port": 1}, "successThreshold": 2}}),
            "spec.containers[0].livenessProbe.successThreshold",
            INVALID,
        ),
        refused(
            json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}),
            "spec.containers[0].lifecycle.preStop.sleep",
            INVALID,
        ),
        refused(
            json!({"securityContext": {"privileged": true, "allowPrivilegeEscalation": false}}),
            "spec.containers[0].securityContext",
            INVALID,
        ),
        refused(
            json!({"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]}),
            "spec.containers[0].restartPolicy",
            REQUIRED,
        ),
        refused(
            json!({"resizePolicy": [{"resourceName": "disk", "restartPolicy": "NotRequired"}]}),
            "spec.containers[0].resizePolicy",
            NOT_SUPPORTED,
        ),
    ]
}
