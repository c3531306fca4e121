#!/usr/bin/env python3
"""Renders a video of the prompt, which moves over a background: motion.py PARAMS OUTPUT

ffmpeg reads the prompt from a file, and expands nothing in it. Its filters are made of numbers alone.
"""
import json
import os
import random
import subprocess
import sys
import textwrap
import unicodedata

# How a picture begins, and the decoder for it. ffmpeg itself would also take a list of other files for one.
PICTURES = {b"\x89PNG": "png", b"\xff\xd8\xff": "mjpeg", b"RIFF": "webp"}


def background(p, rng):
    """Returns the input of ffmpeg and its filters: the first asset, or else a gradient whose colours rng chooses."""
    path = os.environ["BATCHFLEET_INPUT"]
    if os.path.isdir(path):  # several assets: the first by name
        path = os.path.join(path, min(os.listdir(path)))
    if not path:
        colours = "".join(f":c{i}=0x{rng.randrange(0x808080):06x}" for i in range(3))
        size = f"s={p['width']}x{p['height']}:x0=0:y0=0:x1={p['width']}:y1={p['height']}"
        chosen = f"{colours}:seed={rng.randrange(2**31)}"  # without a seed it is another picture each time
        return ["-f", "lavfi", "-i", f"gradients={size}:r={p['fps']}:nb_colors=3{chosen}:speed=0.02"], ""
    with open(path, "rb") as f:
        head = f.read(4)
    decoder = next((name for begin, name in PICTURES.items() if head.startswith(begin)), None)
    if decoder is None:
        print("the first asset is no picture in PNG, JPEG or WebP", file=sys.stderr)
        sys.exit(65)
    picture = ["-f", "image2", "-pattern_type", "none", "-framerate", str(p["fps"]), "-c:v", decoder]
    filled = f"scale={p['width']}:{p['height']}:force_original_aspect_ratio=increase,crop={p['width']}:{p['height']}"
    return [*picture, "-max_pixels", "100000000", "-i", "file:" + path], f"{filled},loop=loop=-1:size=1,"


def lines(prompt, columns):
    """Breaks the prompt into lines of at most so many letters."""
    rows = ("".join(c if c.isprintable() else " " for c in row) for row in prompt.splitlines())
    return "\n".join(line for row in rows for line in textwrap.wrap(row, columns) or [" "]) or " "


with open(sys.argv[1], encoding="utf-8") as f:
    p = json.load(f)
if p["width"] % 2 or p["height"] % 2:
    print("width and height must be even", file=sys.stderr)
    sys.exit(65)
output, size = sys.argv[2], max(p["height"] // 12, 6)
wide = any(c.isalpha() and unicodedata.east_asian_width(c) in "WF" for c in p["prompt"])
with open("prompt.txt", "w", encoding="utf-8") as f:
    f.write(lines(p["prompt"], max(p["width"] // size * (2 if wide else 3) // 2, 3)))
font = "fontfile='\\:charset=61 6f22'" if wide else "font=Sans"  # one that has "a" and "漢", or DejaVu if there is none
frames = max(round(p["duration"] * p["fps"]), 1)
source, filters = background(p, random.Random(f"{p['seed']} {p['prompt']}"))
text = f"drawtext=textfile=prompt.txt:expansion=none:{font}:fontsize={size}:fontcolor=white:borderw={max(size // 15, 1)}"
moving = f"x=(w-tw)/2:y=h-(h+th)*(n+1)/{frames + 1}"
ffmpeg = ["ffmpeg", "-nostdin", "-v", "error", "-bitexact", "-y"]
video = [*ffmpeg, "-progress", "pipe:1", *source, "-vf", f"{filters}{text}:{moving}", "-frames:v", str(frames),
         "-c:v", "libx264", "-pix_fmt", "yuv420p", "-threads", "4", "-movflags", "+faststart", f"{output}/motion.mp4"]
with subprocess.Popen(video, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as rendering:
    for line in rendering.stdout:
        key, _, value = line.strip().partition("=")
        if key == "frame":
            print(f"::progress {value}/{frames} frames", flush=True)
if rendering.returncode:
    sys.exit(1)  # ffmpeg has said why
middle = max((frames // 2 - 0.5) / p["fps"], 0)
still = [*ffmpeg, "-ss", str(middle), "-i", f"{output}/motion.mp4", "-frames:v", "1", f"{output}/preview.png"]
sys.exit(subprocess.run(still, stdin=subprocess.DEVNULL).returncode != 0)
