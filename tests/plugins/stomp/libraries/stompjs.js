// One conversation by @stomp/stompjs, in Node or in a browser: `talk(brokerURL or factory, name, done)`.
// It calls `done` with a list of what it saw, or of what went wrong.
(function (root) {
  const talk = (StompJs, options, name, done) => {
    const seen = [];
    const client = new StompJs.Client({
      ...options,
      connectHeaders: { login: "guest", passcode: "guest" },
      reconnectDelay: 0,
      heartbeatIncoming: 1000,
      heartbeatOutgoing: 1000,
      onStompError: (frame) => done([...seen, "ERROR " + frame.headers.message + " " + frame.body]),
      onWebSocketError: () => done([...seen, "the connection failed"]),
    });
    const bytes = Uint8Array.from({ length: 256 }, (_, at) => at);
    client.onConnect = (connected) => {
      seen.push("connected " + connected.headers.version);
      client.subscribe("/queue/" + name, (message) => {
        if (message.headers.kind === "text") {
          seen.push("text " + message.body + " " + message.headers.special);
          message.ack();
          client.publish({ destination: "/queue/" + name, binaryBody: bytes, headers: { kind: "binary" } });
        } else if (message.headers.redelivered === "false") {
          seen.push("binary " + message.binaryBody.every((byte, at) => byte === at));
          message.nack();
          const transaction = client.begin();
          client.publish({ destination: "/topic/" + name, body: "news", headers: { transaction: transaction.id } });
          transaction.commit();
        }
      }, { ack: "client-individual" });
      client.subscribe("/topic/" + name, (message) => {
        seen.push(message.body);
        client.watchForReceipt("last", () => {
          seen.push("receipt");
          client.publish({ destination: "/queue/result-" + name, body: seen.join("\n"), headers: { receipt: "end" } });
          client.watchForReceipt("end", () => client.deactivate().then(() => done(seen)));
        });
        client.publish({ destination: "/queue/other-" + name, body: "x", headers: { receipt: "last" } });
      });
      client.publish({
        destination: "/queue/" + name,
        body: "smörgås",
        headers: { kind: "text", persistent: "true", special: "a:b" },
      });
    };
    client.activate();
  };
  if (typeof module === "undefined") {
    root.talk = talk;
    return;
  }

  // node stompjs.js tcp|ws PORT NAME
  const StompJs = require("@stomp/stompjs");
  const net = require("net");
  const [, , kind, port, name] = process.argv;

  // What stompjs needs of a WebSocket, over a TCP connection.
  class TcpSocket {
    constructor() {
      this.binaryType = "arraybuffer";
      this.socket = net.connect(Number(port), "127.0.0.1");
      this.socket.on("connect", () => this.onopen && this.onopen());
      this.socket.on("data", (data) => this.onmessage && this.onmessage({ data: new Uint8Array(data).buffer }));
      this.socket.on("error", (error) => this.onerror && this.onerror(error));
      this.socket.on("close", () => this.onclose && this.onclose({ code: 1000, wasClean: true }));
      this.url = "tcp://127.0.0.1:" + port;
    }
    get readyState() {
      return { opening: 0, open: 1, writeOnly: 2, readOnly: 2, closed: 3 }[this.socket.readyState];
    }
    send(data) { this.socket.write(typeof data === "string" ? data : Buffer.from(data)); }
    close() { this.socket.end(); }
  }

  let options = { webSocketFactory: () => new TcpSocket() };
  if (kind === "ws") {
    if (typeof WebSocket === "undefined") global.WebSocket = require("ws");
    options = { brokerURL: "ws://127.0.0.1:" + port + "/ws" };
  }
  talk(StompJs, options, name, (seen) => {
    console.log(seen.join("\n"));
    process.exit(0);
  });
})(this);
