// The pages of `windlass web` in Debian's Chromium with a real agent, in network namespaces of their own: a server, a box, a client.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { CHROMIUM, after, folder, isIdle, launch, load, open, start, web, windlass } from "./harness.js";

const PORT = 7000;

const SERVER = `require("net").createServer((stream) => {
	const send = () => { while (stream.write(Buffer.alloc(1 << 16))); };
	stream.on("drain", send).on("error", () => {});
	send();
}).listen(${PORT}, () => console.log("listens"));`;

const CLIENT = `const stream = require("net").connect(${PORT}, "10.79.1.2", () => console.log("from port " + stream.localPort));
stream.on("data", () => {});`;

/** Server, box and client; the server's interface of the box is r1. Resolves to what runs a command in each. */
function network(t) {
	const names = ["s", "b", "c"].map((host) => `windlass-web-${process.pid}-${host}`);
	const ip = (...words) => execFileSync("ip", words);
	after(t, () => names.forEach((name) => ip("netns", "del", name)));
	names.forEach((name) => ip("netns", "add", name));
	const [server, box, client] = names;
	[[server, 1], [client, 2]].forEach(([host, subnet]) => {
		ip("-n", host, "link", "add", "eth0", "type", "veth", "peer", "name", `r${subnet}`, "netns", box);
		ip("-n", host, "addr", "add", `10.79.${subnet}.2/24`, "dev", "eth0");
		ip("-n", box, "addr", "add", `10.79.${subnet}.1/24`, "dev", `r${subnet}`);
		ip("-n", host, "link", "set", "eth0", "up");
		ip("-n", box, "link", "set", `r${subnet}`, "up");
		ip("-n", host, "route", "add", "default", "via", `10.79.${subnet}.1`, "congctl", "cubic");
	});
	ip("-n", box, "link", "set", "lo", "up");
	// with the mounts of this process: what is pinned must be seen by all
	const [of_server, of_box, of_client] = names.map((name) => ["nsenter", `--net=/run/netns/${name}`]);
	execFileSync(of_box[0], [of_box[1], "sysctl", "-qw", "net.ipv4.ip_forward=1"]);
	execFileSync(of_box[0], [of_box[1], ..."tc qdisc add dev r2 root tbf rate 30mbit burst 20kb limit 90kb".split(" ")]);
	return { of_server, of_box, of_client };
}

test("web_shows_a_real_agents_new_flow_within_a_second_and_what_holds_it_back", { skip: process.getuid() !== 0 && "needs root" }, async (t) => {
	const { of_server, of_box, of_client } = network(t);
	const files = folder(t);
	const policy = join(files, "policy.toml");
	writeFileSync(policy, '[[rule]]\nname = "all"\nmatch = { iface = "r1" }\nalgorithm = "bbr"\n');
	const chromium = join(files, "chromium");
	writeFileSync(chromium, `#!/bin/sh\nexec ${of_box.join(" ")} ${CHROMIUM} "$@"\n`);
	chmodSync(chromium, 0o755);
	after(t, () => execFileSync(of_box[0], [of_box[1], ...windlass("detach", "--all")]));
	await start(t, [...of_box, ...windlass("agent", "--policy", policy, "--flows", "2048", "--store-mib", "32")], "r1: under control");
	const [, address] = await web(t, ["--listen", "127.0.0.1:0"], of_box);
	const page = await open(t, await launch(t, chromium), `${address}#/flows`);
	await page.getByText("No flow now.").waitFor();
	await start(t, [...of_server, process.execPath, "-e", SERVER], "listens");
	const took = [];
	let last;
	for (let flow = 0; flow < 3; flow += 1) {
		const [, line] = await start(t, [...of_client, process.execPath, "-e", CLIENT], "from port ");
		const began = Date.now();
		last = page.getByRole("link", { name: `10.79.2.2:${line.split(" ").at(-1)}` });
		await last.waitFor();
		took.push(Date.now() - began);
	}
	console.log(`a real agent's new flow is seen after ${took.join(", ")} ms; ${load()}`);
	await last.click();
	await page.getByText("Noted for").waitFor();
	await page.locator(".why .cause", { hasNotText: "nothing was noted" }).waitFor();
	await page.locator(".tile", { hasText: "Delivered" }).getByText("Mbit/s", { exact: false }).first().waitFor();
	assert.equal(await page.locator(".chip").first().textContent(), "controlled");
	assert.deepEqual([page.complaints, page.elsewhere], [[], []]);
	assert.ok(!isIdle() || Math.max(...took) <= 1000);
});
