"""kr8s: create, read, list, watch, patch, label, scale, delete."""

import sys

import kr8s
from kr8s.objects import ConfigMap, Deployment, Pod

api = kr8s.api(kubeconfig=sys.argv[1])
assert api.version()["major"] == "1"
assert any(resource["name"] == "pods" for resource in api.api_resources())


def config_map(name, **data):
    return ConfigMap({"apiVersion": "v1", "kind": "ConfigMap",
                      "metadata": {"name": name, "namespace": "default"}, "data": data}, api=api)


one = config_map("one", key="value")
one.create()
assert one.exists() and one.metadata.uid
assert ConfigMap.get("one", namespace="default", api=api).data.key == "value"

one.patch({"data": {"more": "data"}})
one.label({"set": "a"})
one.annotate({"note": "text"})
one.refresh()
assert one.data == {"key": "value", "more": "data"} and one.labels["set"] == "a"
one.patch([{"op": "remove", "path": "/data/more"}], type="json")
assert "more" not in one.data
names = [found.name for found in api.get("configmaps", namespace="default", label_selector={"set": "a"})]
assert names == ["one"], names

web = Deployment({
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
    "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}},
             "template": {"metadata": {"labels": {"app": "web"}},
                          "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}}, api=api)
web.create()
web.patch({"spec": {"replicas": 3}}, subresource="scale")
web.refresh()
assert web.replicas == 3, web.spec

pod = Pod({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
           "spec": {"containers": [{"name": "c", "image": "i"}]}}, api=api)
pod.create()
kinds = []
changed = False
for event, found in api.watch("pods", namespace="default"):
    kinds.append(event)
    if event == "ADDED" and not changed:
        changed = True
        pod.label({"seen": "yes"})
    elif event == "MODIFIED" and found.labels.get("seen") == "yes":
        pod.delete()
    elif event == "DELETED":
        break
assert kinds[0] == "ADDED" and kinds[-1] == "DELETED" and "MODIFIED" in kinds, kinds

one.delete()
one.wait("delete", timeout=60)
assert not one.exists()
print("done")
