import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.HasMetadata;
import io.fabric8.kubernetes.api.model.KubernetesResourceList;
import io.fabric8.kubernetes.api.model.ManagedFieldsEntry;
import io.fabric8.kubernetes.api.model.Namespaced;
import io.fabric8.kubernetes.api.model.apiextensions.v1.CustomResourceDefinition;
import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.client.CustomResource;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.dsl.MixedOperation;
import io.fabric8.kubernetes.client.dsl.Resource;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import io.fabric8.kubernetes.model.annotation.Group;
import io.fabric8.kubernetes.model.annotation.Version;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The client with its configuration from KUBECONFIG: objects, patches, a watch, an informer, a custom resource. */
public final class Fabric8 {
  private static final String NAMESPACE = "default";

  /** Events take milliseconds; the limit allows for machines under load. */
  private static final int LIMIT_S = 30;

  private final KubernetesClient client;

  private Fabric8(KubernetesClient client) {
    this.client = client;
  }

  public static void main(String[] arguments) throws Exception {
    try (KubernetesClient client = new KubernetesClientBuilder().build()) {
      Fabric8 test = new Fabric8(client);
      test.discovery();
      test.objects();
      test.patches();
      test.serverSideApply();
      test.watch();
      test.informer();
      test.customResource();
    }
    System.out.println("done");
  }

  private void discovery() {
    equal("1", client.getKubernetesVersion().getMajor());
    check(client.supports(Deployment.class), "serves deployments");
    check(!client.supports(Widget.class), "serves a kind before its definition");
  }

  private void objects() {
    ConfigMap created = client.resource(configMap("one", Map.of("key", "value"))).create();
    check(created.getMetadata().getUid() != null, "uid is set");
    Resource<ConfigMap> one = configMaps("one");
    equal(Map.of("key", "value"), one.get().getData());
    List<ConfigMap> listed = client.configMaps().inNamespace(NAMESPACE).withLabel("set", "a").list().getItems();
    equal(List.of("one"), listed.stream().map(item -> item.getMetadata().getName()).toList());

    one.edit(map -> new ConfigMapBuilder(map).addToData("edited", "yes").build());
    equal("yes", one.get().getData().get("edited"));
    rejected(409, () -> client.resource(created).update());
    rejected(409, () -> client.resource(configMap("one", Map.of())).create());
    rejected(422, () -> client.resource(configMap("Bad_Name", Map.of())).create());

    equal(1, one.delete().size());
    check(one.get() == null, "a deleted object is not found");
  }

  private void patches() {
    client.resource(configMap("patched", Map.of("key", "value"))).create();
    Resource<ConfigMap> patched = configMaps("patched");
    patched.patch(PatchContext.of(PatchType.JSON), "[{\"op\":\"add\",\"path\":\"/data/json\",\"value\":\"1\"}]");
    patched.patch(PatchContext.of(PatchType.JSON_MERGE), "{\"data\":{\"key\":null,\"merge\":\"2\"}}");
    patched.patch(PatchContext.of(PatchType.STRATEGIC_MERGE), "{\"data\":{\"strategic\":\"3\"}}");
    equal(Map.of("json", "1", "merge", "2", "strategic", "3"), patched.get().getData());
    patched.delete();
  }

  private void serverSideApply() {
    client.resource(configMap("applied", Map.of("a", "1", "b", "1"))).fieldManager("first").serverSideApply();
    ConfigMap second = configMap("applied", Map.of("b", "2"));
    rejected(409, () -> client.resource(second).fieldManager("second").serverSideApply());
    ConfigMap forced = client.resource(second).fieldManager("second").forceConflicts().serverSideApply();
    equal(Map.of("a", "1", "b", "2"), forced.getData());
    List<ManagedFieldsEntry> managers = forced.getMetadata().getManagedFields();
    equal(List.of("first", "second"), managers.stream().map(ManagedFieldsEntry::getManager).sorted().toList());
    configMaps("applied").delete();
  }

  private void watch() throws Exception {
    BlockingQueue<String> events = new LinkedBlockingQueue<>();
    Watcher<ConfigMap> watcher = new Watcher<>() {
      @Override
      public void eventReceived(Action action, ConfigMap map) {
        events.add(action + " " + map.getData().get("key"));
      }

      @Override
      public void onClose(WatcherException cause) {
        events.add("closed: " + cause);
      }
    };
    try (var watch = configMaps("watched").watch(watcher)) {
      changeAndDelete("watched");
      for (String expected : List.of("ADDED 1", "MODIFIED 2", "DELETED 2")) {
        equal(expected, next(events));
      }
    }
  }

  private void informer() throws Exception {
    client.resource(configMap("before", Map.of("key", "0"))).create();
    BlockingQueue<String> events = new LinkedBlockingQueue<>();
    SharedIndexInformer<ConfigMap> informer = client.configMaps().inNamespace(NAMESPACE).withLabel("set", "a")
        .inform(new Recorder(events));
    check(informer.hasSynced(), "the informer has synced");
    equal("add before", next(events));
    changeAndDelete("informed");
    for (String expected : List.of("add informed", "update informed 1 2", "delete informed")) {
      equal(expected, next(events));
    }
    equal(List.of("before"), informer.getStore().list().stream().map(map -> map.getMetadata().getName()).toList());
    informer.close();
    configMaps("before").delete();
  }

  private record Recorder(BlockingQueue<String> events) implements ResourceEventHandler<ConfigMap> {
    @Override
    public void onAdd(ConfigMap map) {
      events.add("add " + map.getMetadata().getName());
    }

    @Override
    public void onUpdate(ConfigMap before, ConfigMap after) {
      String values = before.getData().get("key") + " " + after.getData().get("key");
      events.add("update " + after.getMetadata().getName() + " " + values);
    }

    @Override
    public void onDelete(ConfigMap map, boolean isStateUnknown) {
      events.add("delete " + map.getMetadata().getName());
    }
  }

  @Group("fabric8.example.com")
  @Version("v1")
  public static final class Widget extends CustomResource<WidgetSpec, WidgetStatus> implements Namespaced {}

  public static final class WidgetSpec {
    public int size;
    public String color;
  }

  public static final class WidgetStatus {
    public String phase;
  }

  private static final String DEFINITION = """
      apiVersion: apiextensions.k8s.io/v1
      kind: CustomResourceDefinition
      metadata: {name: widgets.fabric8.example.com}
      spec:
        group: fabric8.example.com
        scope: Namespaced
        names: {plural: widgets, singular: widget, kind: Widget}
        versions:
        - name: v1
          served: true
          storage: true
          subresources: {status: {}}
          schema:
            openAPIV3Schema:
              type: object
              properties:
                spec:
                  type: object
                  properties:
                    size: {type: integer, minimum: 1}
                    color: {type: string, default: red}
                status:
                  type: object
                  properties:
                    phase: {type: string}
      """;

  private void customResource() throws Exception {
    CustomResourceDefinition definition = client.getKubernetesSerialization().unmarshal(DEFINITION);
    client.resource(definition).create();
    client.resource(definition).waitUntilCondition(Fabric8::isEstablished, LIMIT_S, TimeUnit.SECONDS);

    Widget widget = named(new Widget(), "widget");
    widget.setSpec(new WidgetSpec());
    widget.getSpec().size = 1;
    equal("red", client.resource(widget).create().getSpec().color);
    MixedOperation<Widget, KubernetesResourceList<Widget>, Resource<Widget>> widgets = client.resources(Widget.class);
    Resource<Widget> resource = widgets.inNamespace(NAMESPACE).withName("widget");
    resource.editStatus(current -> {
      current.setStatus(new WidgetStatus());
      current.getStatus().phase = "Ready";
      return current;
    });
    equal("Ready", resource.get().getStatus().phase);
    equal(1, widgets.inNamespace(NAMESPACE).list().getItems().size());
    rejected(422, () -> resource.edit(current -> {
      current.getSpec().size = 0;
      return current;
    }));
    resource.delete();
    resource.waitUntilCondition(current -> current == null, LIMIT_S, TimeUnit.SECONDS);
    client.resource(definition).delete();
  }

  private static boolean isEstablished(CustomResourceDefinition definition) {
    return definition != null && definition.getStatus() != null && definition.getStatus().getConditions().stream()
        .anyMatch(condition -> condition.getType().equals("Established") && condition.getStatus().equals("True"));
  }

  private Resource<ConfigMap> configMaps(String name) {
    return client.configMaps().inNamespace(NAMESPACE).withName(name);
  }

  private void changeAndDelete(String name) {
    client.resource(configMap(name, Map.of("key", "1"))).create();
    configMaps(name).edit(map -> new ConfigMapBuilder(map).addToData("key", "2").build());
    configMaps(name).delete();
  }

  private static ConfigMap configMap(String name, Map<String, String> data) {
    return new ConfigMapBuilder().withNewMetadata().withNamespace(NAMESPACE).withName(name).addToLabels("set", "a")
        .endMetadata().withData(data).build();
  }

  private static <T extends HasMetadata> T named(T object, String name) {
    object.getMetadata().setNamespace(NAMESPACE);
    object.getMetadata().setName(name);
    return object;
  }

  private static String next(BlockingQueue<String> events) throws InterruptedException {
    return events.poll(LIMIT_S, TimeUnit.SECONDS);
  }

  private static void rejected(int code, Runnable request) {
    try {
      request.run();
    } catch (KubernetesClientException error) {
      equal(code, error.getCode());
      return;
    }
    throw new AssertionError("accepted, but " + code + " was expected");
  }

  private static void equal(Object expected, Object actual) {
    check(expected.equals(actual), "expected " + expected + ", is " + actual);
  }

  private static void check(boolean holds, String claim) {
    if (!holds) {
      throw new AssertionError(claim);
    }
  }
}
