"""The window as a screen reader finds it: the program runs next to this process on a display and a session bus of their
own, and its tree is read over the accessibility bus.

    python3 accessibility.py build/bin/afterglow

Exit code 77: a program or library that it needs is not installed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
LAUNCHER = "/usr/libexec/at-spi-bus-launcher"
PATIENCE = 120  # seconds; a slow machine needs some of them


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


def on_a_bus_of_its_own(program):
    """Runs this file again, on a display and a session bus that end with it."""
    for needed in ("dbus-run-session", "Xvfb"):
        if not shutil.which(needed):
            skip(needed + " is not installed")
    if not os.path.exists(LAUNCHER):
        skip("at-spi2-core is not installed")
    reading, writing = os.pipe()
    display = subprocess.Popen(["Xvfb", "-displayfd", str(writing), "-screen", "0", "1600x1000x24", "-nolisten", "tcp"],
                               pass_fds=[writing], stderr=subprocess.DEVNULL)
    os.close(writing)
    try:
        with os.fdopen(reading) as number, tempfile.TemporaryDirectory() as home:
            environment = {name: value for name, value in os.environ.items()
                           if not name.startswith(("DBUS_", "XDG_", "AT_SPI", "WAYLAND", "NO_AT"))}
            environment.update(DISPLAY=":" + number.readline().strip(), HOME=home, XDG_RUNTIME_DIR=home)
            return subprocess.run(["dbus-run-session", "--", sys.executable, __file__, program, home],
                                  env=environment).returncode
    finally:
        display.terminate()
        display.wait()


def wait_for(what, condition):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    sys.exit("not found in %d seconds: %s" % (PATIENCE, what))


class Reader:
    """A screen reader that keeps what the program announces."""

    def __init__(self, atspi, glib):
        self.atspi, self.context, self.gone = atspi, glib.MainContext.default(), glib.Error
        self.focused, self.said = set(), []
        self.listener = atspi.EventListener.new(self.hear)
        for event in ("object:state-changed:focused", "object:announcement", "object:notification"):
            try:
                self.listener.register(event)
            except glib.Error:
                pass  # not known to this version

    def hear(self, event):
        if event.type.startswith("object:state-changed:focused"):
            if event.detail1:
                self.focused.add(event.source.get_name())
        else:
            self.said.append(str(event.any_data))

    def wait_for(self, what, condition):
        def heard():
            while self.context.iteration(False):
                pass
            try:
                return condition()
            except self.gone:
                return None  # what is asked for has just gone

        return wait_for(what, heard)

    def application(self, name):
        desktop = self.atspi.get_desktop(0)
        for i in range(desktop.get_child_count()):
            child = desktop.get_child_at_index(i)
            if child and child.get_name() == name:
                return child
        return None


def children(parent):
    return [child for child in (parent.get_child_at_index(i) for i in range(parent.get_child_count())) if child]


def panels_of(application):
    frames = children(application)
    return {child.get_name(): child for child in children(frames[0])} if frames else {}


def check(is_true, what):
    if not is_true:
        sys.exit("does not hold: " + what)


def look(program, home):
    try:
        import gi
        gi.require_version("Atspi", "2.0")
        from gi.repository import Atspi, Gio, GLib
    except (ImportError, ValueError):
        skip("python3-gi and gir1.2-atspi-2.0 are not installed")
    bus = Gio.bus_get_sync(Gio.BusType.SESSION)

    def has_owner(name):
        return bus.call_sync("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "NameHasOwner",
                             GLib.Variant("(s)", (name,)), None, Gio.DBusCallFlags.NONE, -1).unpack()[0]

    script, drawn = os.path.join(home, "script.json"), os.path.join(home, "drawn.png")
    commands = [{"name": "lesson", "value": {"open": "tour"}, "time": 0}]
    commands += [{"name": "focus", "value": {}, "time": second} for second in range(2, 4 * PATIENCE)]
    # Rarely: while a picture is packed, nothing is answered.
    commands += [{"name": "screenshot", "value": {"path": drawn}, "time": second} for second in range(0, 4 * PATIENCE, 20)]
    commands.append({"name": "screenshot", "value": {"path": "/nowhere/at/all.png"}, "time": 30})  # leaves a note
    commands.sort(key=lambda command: command["time"])
    with open(script, "w") as file:
        json.dump({"commands": commands + [{"name": "quit", "value": {}, "time": 4 * PATIENCE}]}, file)
    window = subprocess.Popen([program, "--size", "1600x1000", "--script", script], cwd=home)
    try:
        # The window was there first, and has started nothing; then a screen reader starts and says so.
        wait_for("the window", lambda: os.path.exists(drawn))
        check(not has_owner("org.a11y.Bus"), "no accessibility bus is started by the window")
        bus.call_sync("org.a11y.Bus", "/org/a11y/bus", "org.freedesktop.DBus.Properties", "Set",
                      GLib.Variant("(ssv)", ("org.a11y.Status", "IsEnabled", GLib.Variant("b", True))), None,
                      Gio.DBusCallFlags.NONE, -1)
        Atspi.init()
        Atspi.set_timeout(20000, 20000)  # milliseconds; a machine may be busy
        reader = Reader(Atspi, GLib)
        application = reader.wait_for("the application", lambda: reader.application("Afterglow"))
        frame = reader.wait_for("its frame", lambda: children(application))[0]
        check(frame.get_role() == Atspi.Role.FRAME, "the frame is one")
        check(frame.get_state_set().contains(Atspi.StateType.ACTIVE), "the frame is active")

        def panels_in_words():
            """On a page that keeps changing, all objects are in the frame and have a description."""
            panels = panels_of(application)
            texts = {name: panel.get_description() for name, panel in panels.items()}
            in_place = all(panel.get_parent().get_name() == "Afterglow" and panel.get_index_in_parent() >= 0
                           for panel in panels.values())
            return texts if len(texts) >= 4 and all(texts.values()) and in_place else None

        texts = reader.wait_for("four panels in words", panels_in_words)
        for name, text in texts.items():
            print("  %s: %s" % (name, text[:150]))
        lesson = next((name for name in texts if name.startswith("Lesson: ")), None)
        check(lesson and "step 1 of" in lesson and len(texts[lesson]) > 40, "the lesson is a panel with its text")

        def loss():
            text = (panels_in_words() or {}).get("Training", "")
            return text if "Loss" in text and any(verb in text for verb in ("falls from", "stays near", "wavers")) else None

        print("Training:", reader.wait_for("the loss in words", loss))
        reader.wait_for("the keyboard on three panels", lambda: len(reader.focused) >= 3)
        print("focused:", sorted(reader.focused))
        reader.wait_for("a note", lambda: reader.said)
        print("said:", reader.said)
        # Screen readers and their bus may end at any time.
        launcher = bus.call_sync("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
                                 "GetConnectionUnixProcessID", GLib.Variant("(s)", ("org.a11y.Bus",)), None,
                                 Gio.DBusCallFlags.NONE, -1).unpack()[0]
        os.kill(launcher, signal.SIGTERM)
        wait_for("the end of the bus", lambda: not has_owner("org.a11y.Bus"))
        os.remove(drawn)
        wait_for("a window that goes on", lambda: os.path.exists(drawn))
        check(window.poll() is None, "the program still runs")
    finally:
        window.terminate()
        window.wait()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        look(sys.argv[1], sys.argv[2])
    else:
        sys.exit(on_a_bus_of_its_own(os.path.abspath(sys.argv[1])))
