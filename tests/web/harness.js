// What the tests share: programs that are started and end with their test, and a browser.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

/** Of the repository; run.sh runs these files elsewhere, beside the packages that they need. */
export const ROOT = process.env.WINDLASS_ROOT ?? fileURLToPath(new URL("../..", import.meta.url));
const WINDLASS = process.env.WINDLASS ?? join(ROOT, "target/debug/windlass");
export const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
/** Within which whatever is waited for happens, in milliseconds. */
export const LIMIT = 60_000;

/** Has nothing else used the processors for a while? Only then are times of the wall clock those of what is tested. */
export const isIdle = () => loadavg()[0] < cpus().length / 2;

/** How busy they are, for the figures. */
export const load = () => `load ${loadavg()[0].toFixed(1)} on ${cpus().length} processors`;

const ends = new WeakMap();

/** Does this after the test, the last first. */
export function after(test, action) {
	if (!ends.has(test)) {
		ends.set(test, []);
		test.after(async () => {
			for (const one of ends.get(test).reverse()) await one();
		});
	}
	ends.get(test).push(action);
}

/** A folder that goes with the test. */
export function folder(test) {
	const path = mkdtempSync(join(tmpdir(), "windlass-web-"));
	after(test, () => rmSync(path, { recursive: true, force: true }));
	return path;
}

/** Starts a program, which ends with the test; resolves to it and the line with these words. */
export function start(test, command, words) {
	const child = spawn(command[0], command.slice(1), { stdio: ["ignore", "pipe", "inherit"] });
	after(test, () => end(child));
	return new Promise((resolve, reject) => {
		createInterface({ input: child.stdout }).on("line", (line) => line.includes(words) && resolve([child, line]));
		child.on("error", reject);
		child.on("exit", (code) => reject(new Error(`${command.join(" ")} ended with ${code}`)));
	});
}

export function end(child, signal = "SIGTERM") {
	if (child.exitCode != null || child.signalCode != null) return Promise.resolve();
	const ended = new Promise((resolve) => child.on("exit", resolve));
	child.kill(signal);
	return ended;
}

/** `windlass web`, after these words; resolves to the process and where its pages are. */
export async function web(test, words, before = []) {
	const [child, line] = await start(test, [...before, WINDLASS, "web", ...words], "pages at ");
	return [child, line.split(" ").at(-1)];
}

export const windlass = (...words) => [WINDLASS, ...words];

export async function launch(test, executablePath = CHROMIUM) {
	// no sandbox: root has none, and nothing is opened but our own pages
	const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
	after(test, () => browser.close());
	return browser;
}

/** A page; `page.complaints` has what it reports as wrong, and `page.elsewhere` what it wants of other servers. */
export async function open(test, browser, address, options = {}) {
	const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
	after(test, () => context.close());
	const page = await context.newPage();
	page.setDefaultTimeout(LIMIT);
	[page.complaints, page.elsewhere] = [[], []];
	page.on("pageerror", (error) => page.complaints.push(error.stack));
	page.on("console", (message) => message.type() === "error" && page.complaints.push(message.text()));
	page.on("request", (request) => request.url().startsWith(address.replace(/#.*/, "")) || page.elsewhere.push(request.url()));
	await page.goto(address);
	return page;
}
