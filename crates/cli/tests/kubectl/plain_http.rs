//! Plain HTTP: the commands of Krust's quick start, word for word.

use crate::session::{Session, has};

const COMMANDS: [&str; 4] = [
    "--server=http://localhost:6443 get nodes",
    "--server=http://localhost:6443 apply -f pod.yaml --validate=false",
    "--server=http://localhost:6443 get pods",
    "--server=http://localhost:6443 delete pod <pod-name>",
];

/// The server URL in the commands.
const SERVER: &str = "http://localhost:6443";

const POD: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: first}\nspec:\n  containers:\n  - {name: c, image: nginx}\n";

#[tokio::test]
async fn quick_start_over_plain_http_works_word_for_word() {
    let flags = ["--insecure-http", "--fake-nodes", "1"];
    let is_free = std::net::TcpListener::bind("127.0.0.1:6443").is_ok();
    let address = if is_free { "127.0.0.1:6443" } else { "127.0.0.1:0" };
    let kubectl = Session::start_at(address, &flags).await.without_kubeconfig();
    kubectl.file("pod.yaml", POD);
    let server = kubectl.url().replacen("https://127.0.0.1", "http://localhost", 1);
    let expected = [&["fake-0", "Ready"][..], &["pod/first created"], &["first"], &["pod \"first\" deleted"]];
    for (command, expected) in COMMANDS.iter().zip(expected) {
        // The server has another port if another program uses that of the commands.
        let command = command.replace(SERVER, &server).replace("<pod-name>", "first");
        has(&kubectl.ok(&command).await, expected);
    }
    kubectl.stop().await;
}
