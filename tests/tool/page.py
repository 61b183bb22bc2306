# SPDX-License-Identifier: MIT
"""Opens a page in headless Chromium, through its pipe for debuggers.

    page.py check HTML              clicks and keys on a matrix of dmabuf-test; exit status 4: there is no Chromium
    page.py survives HTML           a matrix that somebody has crafted: says something, and makes no element of it
    page.py site HTML               a page of tools/docs/site: its width, light and dark, printed, its menu, keys, and what the search finds
    page.py picture HTML PNG WIDTHxHEIGHT light|dark [CELL]
                                    takes a picture of it, with the panel of a cell ("c0-1") open

CHROMIUM is the browser's program. Prints each thing that is wrong; exit status 1 when there is one.
"""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROGRAMS = "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"
SECONDS = 120


class Page:
    """One page; what it says on the console and what it asks the network for is in `said`."""

    def __init__(self, program, path):
        self.home = tempfile.TemporaryDirectory()
        to_read, self.to = os.pipe()
        self.answers, to_write = os.pipe()

        def pipes():
            # 3 and 4 are what it reads and writes; a pipe may have these numbers already.
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        # A container has no user namespaces for its sandbox, and the page is ours.
        self.browser = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
             "--disable-dev-shm-usage", f"--user-data-dir={self.home.name}", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self.home.name})
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.number, self.said, self.session = b"", 0, [], None
        self.events = set()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log", "Network":
            self.call(domain + ".enable")
        self.url = pathlib.Path(path).resolve().as_uri()
        self.view(1280, 900, "light")

    def close(self):
        self.browser.kill()
        self.browser.wait()
        self.home.cleanup()

    def receive(self):
        while b"\0" not in self.buffer:
            more = os.read(self.answers, 1 << 16)
            if not more:
                raise SystemExit("the browser has ended")
            self.buffer += more
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer.get("method"), answer.get("params", {}))

    def note(self, method, params):
        self.events.add(method)
        if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.said.append(json.dumps(params))
        elif method == "Network.requestWillBeSent" and params["request"]["url"].partition("#")[0] != self.url:
            self.said.append(f"asked for {params['request']['url']}")

    def load(self, fragment=""):
        self.events.discard("Page.loadEventFired")
        self.call("Page.navigate", url=self.url + fragment)
        while "Page.loadEventFired" not in self.events:
            message = self.receive()
            self.note(message.get("method"), message.get("params", {}))

    def view(self, width, height, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise SystemExit(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def follows(self, act, *args):
        """Does what follows a link within the page, and waits until the page has seen it."""
        self.value("{ window.followed = new Promise(done => addEventListener('hashchange', () => done(), { once: true })); 0 }")
        act(*args)
        self.value("followed")

    def click(self, selector):
        x, y = self.value(f"""(() => {{ const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: 'center', inline: 'center'}}); const r = e.getBoundingClientRect();
            return [r.x + r.width / 2, r.y + r.height / 2]; }})()""")
        for kind in "mousePressed", "mouseReleased":
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def key(self, name, text=""):
        for kind in "keyDown", "keyUp":
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, text=text if kind == "keyDown" else "",
                      windowsVirtualKeyCode={"Enter": 13, "Tab": 9, "ArrowDown": 40, "/": 191, "a": 65}[name])

    def picture(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


# The visible text.
OPEN = "[...document.querySelectorAll('aside')].filter(e => e.getClientRects().length).map(e => e.innerText).join('|')"


# Elements that a template and strings cannot make.
OTHERS = "script:not(#data, main ~ script), img, iframe, link, object, #injected"


def check(page):
    wrong = []

    def same(what, found, expected):
        if found != expected:
            wrong.append(f"{what} is {found!r}, not {expected!r}")

    def opened(how, cell):
        reason = cell["reason"] or "Every check passed."
        text = page.value(OPEN)
        for part in [cell["exporter"], cell["importer"], cell["result"], reason]:
            same(f"{how}: {part!r} is in the open panel", " ".join(part.split()) in " ".join(text.split()), True)

    page.load()
    cells = page.value("""[...document.querySelectorAll('.cell')].map(a => ({ id: a.hash.slice(1), result: a.querySelector('b').innerText.trim(),
        reason: a.title }))""")
    matrix = page.value("JSON.parse(document.getElementById('data').textContent)")
    for cell in cells:
        e, i = map(int, cell["id"][1:].split("-"))
        cell["exporter"], cell["importer"] = matrix["exporters"][e]["name"], matrix["importers"][i]["name"]
    same("the cells", {(c["exporter"], c["importer"]): (c["result"], c["reason"]) for c in cells},
         {(c["exporter"], c["importer"]): (c["result"], c["reason"]) for c in matrix["cells"]})
    same("what is open at first", page.value(OPEN), "")
    for cell in [c for c in cells if c["reason"]][:2]:
        page.follows(page.click, f"a.cell[href='#{cell['id']}']")
        opened("a click", cell)
        page.follows(page.click, "aside .close")
        same("what is open after a click on close", page.value(OPEN), "")
    # By keys: the first cell is behind the words, the table and whatever else has the focus.
    page.load()
    for _ in range(50):
        page.key("Tab")
        if page.value("document.activeElement.className").startswith("cell"):
            break
    same("the cell that Tab reaches", page.value("document.activeElement.hash"), "#" + cells[0]["id"])
    page.follows(page.key, "Enter", "\r")
    opened("Enter", cells[0])
    # Nothing was injected, nothing is wider than the page, each mark is drawn.
    for width, height, scheme in (1280, 900, "light"), (1280, 900, "dark"), (360, 740, "dark"):
        page.view(width, height, scheme)
        page.load()
        same(f"the width of the page at {width}", page.value("document.documentElement.scrollWidth"),
             page.value("document.documentElement.clientWidth"))
        same(f"scripts, images and others at {width}", page.value(f"document.querySelectorAll({json.dumps(OTHERS)}).length"), 0)
        same(f"cells without a mark at {width}", page.value("""[...document.querySelectorAll('.cell .mark')].filter(
            m => !m.getClientRects().length || !(m.getBBox().width || m.getBBox().height)).length"""), 0)
    same("polylines that are not finite", page.value("""[...document.querySelectorAll('polyline')].filter(
        p => !/^([0-9.]+,[0-9.]+ )*$/.test(p.getAttribute('points'))).length"""), 0)
    return wrong + page.said


def survives(page):
    wrong = []
    page.load()
    for fragment in "", "#c0-0", "#c1-0":
        page.value(f"location.hash = '{fragment}'; 0")
        if not page.value("document.querySelector('main').innerText"):
            wrong.append("the page is empty")
        if page.value(f"document.querySelectorAll({json.dumps(OTHERS)}).length"):
            wrong.append("there are other elements")
    return wrong + page.said


def site(page):
    wrong = []
    for width, height, scheme in (1280, 900, "light"), (1280, 900, "dark"), (360, 740, "dark"):
        page.view(width, height, scheme)
        page.load()
        wide = page.value("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if wide:
            wrong.append(f"at {width} the page is {wide} pixels wider than the window")
        dark = page.value("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every(c => c < 128)")
        if dark != (scheme == "dark"):
            wrong.append(f"{scheme}: the background is {'dark' if dark else 'light'}")
        if page.value("[...document.images].filter(i => !i.naturalWidth).length"):
            wrong.append("an image is not there")
        if page.value("document.querySelectorAll('h1').length") != 1:
            wrong.append("there is not one heading of the page")
        broken = page.value("""[...document.querySelectorAll('th')].filter(h => { const r = document.createRange();
            r.selectNodeContents(h); return !/[-\\s_\\/]/.test(h.innerText) && new Set([...r.getClientRects()].map(b => b.top)).size > 1;
            }).map(h => h.innerText)""")
        if broken:
            wrong.append(f"at {width} these words are broken: {broken}")
        if width > 800 and not page.value("""(e => !e || e.getBoundingClientRect().top >= 0 && e.getBoundingClientRect().bottom <= innerHeight)(
                document.querySelector('nav [aria-current]'))"""):
            wrong.append(f"at {width} the menu does not show the page")
    page.key("/", "/")
    page.key("a", "a")
    if page.value("[document.activeElement.value, !!found.querySelector('a')]") != ["a", True]:
        wrong.append("the key / does not begin a search")
    page.key("ArrowDown")
    if page.value("document.activeElement !== document.querySelector('#found a')"):
        wrong.append("the key down does not select what is found")
    page.call("Emulation.setEmulatedMedia", media="print")
    if page.value("document.querySelector('nav').getClientRects().length"):
        wrong.append("the menu is printed")
    page.call("Emulation.setEmulatedMedia", media="")
    for words, first in (("dlbuf_acquire", "dlbuf_acquire(3)"), ("acquire", "dlbuf_acquire(3)"), ("prepare frame", "dlbuf_prepare_frame(3)"),
                         ("preparer", "dlbuf.Preparer"), ("dlbuf_prepare_run_opts index", "dlbuf_prepare_frame(3)"),
                         ("nothing of xyzzy", None)):
        found = page.value(f"""(() => {{ const b = document.querySelector('nav input'); b.value = {json.dumps(words)};
            b.dispatchEvent(new Event('input')); return [...document.querySelectorAll('#found a')].map(a => a.firstChild.textContent); }})()""")
        if found[:1] != [first] * bool(first):
            wrong.append(f"the search for {words!r} finds {found[:3]}")
    # What a page needs beside itself is a file of the site.
    return wrong + [s for s in page.said if not s.startswith("asked for file:")]


def main(what, html, *args):
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if not program or not shutil.which(program):
        print("there is no Chromium here (tools/deps names it)")
        return 4
    page = Page(program, html)
    try:
        if what in ("check", "survives", "site"):
            wrong = {"check": check, "survives": survives, "site": site}[what](page)
            print("\n".join(wrong), end="\n" * bool(wrong))
            return bool(wrong)
        png, size, scheme, *cell = args
        page.call("Emulation.setScrollbarsHidden", hidden=True)
        page.view(*map(int, size.split("x")), scheme)
        page.load("#" + cell[0] if cell else "")
        page.picture(png)
    finally:
        page.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
