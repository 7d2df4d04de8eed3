// What a user of @xmpp/client does: node with_xmpp_js.cjs PORT COMPONENT PASSWORD
// It answers no question about itself (XEP-0030): the library has nothing for that.
const { client, xml } = require("@xmpp/client");
const assert = require("assert");

const [port, service, password] = process.argv.slice(2);
const PUBSUB = "http://jabber.org/protocol/pubsub";
const xmpp = client({
  service: `xmpp://127.0.0.1:${port}`,
  domain: "localhost",
  resource: "xmppjs",
  timeout: 120000, // to open and to close a stream; two seconds by default, which a busy machine does not keep
  credentials: (authenticate) => authenticate({ username: "ada", password }, "PLAIN"),
});
const waiting = [];
const items = [];
let stopping = false;
// once all has been said, how the connection ends is between the library and the server: it may still ask for an
// acknowledgement (XEP-0198) on a stream that has ended, or the server may reset it first
xmpp.on("error", (error) => { if (!stopping) throw error; });
xmpp.on("stanza", (stanza) => {
  if (!stanza.is("message")) return;
  const item = stanza.getChild("event")?.getChild("items")?.getChild("item");
  if (item) (waiting.shift() ?? ((got) => items.push(got)))(item);
});
const nextItem = () => (items.length ? Promise.resolve(items.shift()) : new Promise((got) => waiting.push(got)));
const form = (kind, values) =>
  xml("x", { xmlns: "jabber:x:data", type: "submit" },
    xml("field", { var: "FORM_TYPE", type: "hidden" }, xml("value", {}, `${PUBSUB}#${kind}`)),
    ...Object.entries(values).map(([name, value]) => xml("field", { var: name }, xml("value", {}, value))));
const ask = (type, xmlns, ...children) =>
  xmpp.iqCaller.request(xml("iq", { type, to: service }, xml("pubsub", { xmlns }, ...children)), 120000);
const set = (...children) => ask("set", PUBSUB, ...children);
const entry = (text) => xml("entry", { xmlns: "http://www.w3.org/2005/Atom" }, text);

xmpp.on("online", async (address) => {
  const bare = address.bare().toString();
  // The library counts from zero once it has looked at <enabled/> (XEP-0198), which is after all that came in the
  // same read: it would acknowledge less than it has already, for which Prosody ends the stream. So nothing is
  // asked for before.
  while (!xmpp.streamManagement.enabled) await new Promise((looked) => setTimeout(looked, 1));
  await xmpp.send(xml("presence"));
  const news = { "{urn:smqp:xmpp:0}queueing": "0", "pubsub#persist_items": "1" };
  await set(xml("create", { node: "js.news" }), xml("configure", {}, form("node_config", news)));
  await set(xml("subscribe", { node: "js.news", jid: bare }));
  await set(xml("publish", { node: "js.news" }, xml("item", { id: "one" }, entry("news"))));
  let item = await nextItem();
  assert.deepStrictEqual([item.attrs.id, item.getChildText("entry")], ["one", "news"]);
  const got = await ask("get", PUBSUB, xml("items", { node: "js.news" }));
  assert.strictEqual(got.getChild("pubsub").getChild("items").getChildren("item").length, 1);
  await set(xml("unsubscribe", { node: "js.news", jid: bare }));
  await ask("set", `${PUBSUB}#owner`, xml("delete", { node: "js.news" }));
  await set(xml("create", { node: "js.work" }));
  await set(xml("subscribe", { node: "js.work", jid: bare }),
    xml("options", {}, form("subscribe_options", { "pubsub#queue_requests": "1" })));
  for (const id of ["first", "second"]) {
    await set(xml("publish", { node: "js.work" }, xml("item", { id }, entry(id))));
    item = await nextItem();
    assert.strictEqual(item.attrs.id, id);
    await set(xml("retract", { node: "js.work" }, xml("item", { id })));
  }
  await assert.rejects(set(xml("subscribe", { node: "js.nothing", jid: bare })), { condition: "item-not-found" });
  stopping = true;
  await xmpp.stop().catch(() => {});
});
xmpp.start();
