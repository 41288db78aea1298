"""The official Python client: create, read, list, watch, update, every patch type, delete."""

import sys

from kubernetes import client, config, dynamic, watch

api = config.new_client_from_config(sys.argv[1])
core = client.CoreV1Api(api)
apps = client.AppsV1Api(api)

# Health, version and discovery.
health = api.rest_client.request("GET", api.configuration.host + "/readyz")
assert health.status == 200 and health.read() == b"ok"
assert client.VersionApi(api).get_code().major == "1"
assert "apps" in [group.name for group in client.ApisApi(api).get_api_versions().groups]

# Create, read, list.
made = core.create_namespaced_config_map("default", client.V1ConfigMap(
    metadata=client.V1ObjectMeta(name="one", labels={"set": "a"}), data={"key": "value"}))
assert made.metadata.uid and made.metadata.creation_timestamp
read = core.read_namespaced_config_map("one", "default")
assert read.data == {"key": "value"} and read.metadata.resource_version == made.metadata.resource_version
listed = core.list_namespaced_config_map("default", label_selector="set=a")
assert [item.metadata.name for item in listed.items] == ["one"]
page = core.list_namespace(limit=2)
assert len(page.items) == 2 and page.metadata._continue
rest = core.list_namespace(limit=100, _continue=page.metadata._continue)
assert not {item.metadata.name for item in page.items} & {item.metadata.name for item in rest.items}

# Update, with a current and a stale resourceVersion.
read.data["key"] = "other"
updated = core.replace_namespaced_config_map("one", "default", read)
assert updated.data == {"key": "other"}
try:
    core.replace_namespaced_config_map("one", "default", read)
    raise AssertionError("a stale write was accepted")
except client.ApiException as error:
    assert error.status == 409, error

# Patch with three types, and server-side apply.
core.patch_namespaced_config_map("one", "default", {"metadata": {"labels": {"new": "label"}}})
core.patch_namespaced_config_map("one", "default", [{"op": "add", "path": "/data/json", "value": "patch"}])
dyn = dynamic.DynamicClient(api)
maps = dyn.resources.get(api_version="v1", kind="ConfigMap")
maps.patch(name="one", namespace="default", body={"data": {"key": None}},
           content_type="application/merge-patch+json")
applied = maps.server_side_apply(name="one", namespace="default", field_manager="python", body={
    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"applied": "yes"}})
assert dict(applied.data) == {"json": "patch", "applied": "yes"}, applied.data
assert applied.metadata.labels["new"] == "label"

# Watch: existing objects, then changes from a revision.
seen = []
revision = core.list_namespaced_config_map("default").metadata.resource_version
core.create_namespaced_config_map("default", client.V1ConfigMap(metadata=client.V1ObjectMeta(name="two")))
core.patch_namespaced_config_map("two", "default", {"data": {"a": "b"}})
core.delete_namespaced_config_map("two", "default")
for event in watch.Watch().stream(core.list_namespaced_config_map, "default",
                                  field_selector="metadata.name=two", resource_version=revision,
                                  timeout_seconds=60):
    seen.append(event["type"])
    if event["type"] == "DELETED":
        break
assert seen == ["ADDED", "MODIFIED", "DELETED"], seen

# A kind with the subresources status and scale.
pod = client.V1PodSpec(containers=[client.V1Container(name="c", image="nginx")])
template = client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels={"app": "web"}), spec=pod)
apps.create_namespaced_deployment("default", client.V1Deployment(
    metadata=client.V1ObjectMeta(name="web"),
    spec=client.V1DeploymentSpec(replicas=1, selector=client.V1LabelSelector(match_labels={"app": "web"}),
                                 template=template)))
apps.patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 3}})
assert apps.read_namespaced_deployment("web", "default").spec.replicas == 3
apps.patch_namespaced_deployment_status("web", "default", {"status": {"replicas": 2}})
assert apps.read_namespaced_deployment_status("web", "default").status.replicas == 2

# Invalid requests are rejected with their reason.
try:
    core.create_namespaced_pod("default", client.V1Pod(
        metadata=client.V1ObjectMeta(name="Bad_Name"), spec=client.V1PodSpec(containers=[
            client.V1Container(name="c", image="i")])))
    raise AssertionError("a bad name was accepted")
except client.ApiException as error:
    assert error.status == 422 and "metadata.name" in error.body, error.body

core.delete_collection_namespaced_config_map("default", label_selector="set=a")
try:
    core.read_namespaced_config_map("one", "default")
    raise AssertionError("a deleted object was read")
except client.ApiException as error:
    assert error.status == 404
print("done")
