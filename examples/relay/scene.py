#!/usr/bin/env python3
"""Renders a scene as a picture of 360 degrees: scene.py PARAMS OUTPUT

The prompt and the seed choose what is in the scene, and where. POV-Ray gets numbers alone, never the prompt.
"""
import json
import os
import random
import sys

SHAPES = [
    "sphere {{ 0, {0} translate y * {0}",
    "box {{ -{0}, {0} rotate y * {1} translate y * {0}",
    "cone {{ 0, {0}, y * {0} * 2.5, 0",
    "cylinder {{ 0, y * {0} * 2, {0} * 0.7",
    "torus {{ {0}, {0} * 0.3 rotate x * {1} translate y * {0} * 1.3",
]


def colour(rng, brightest=1.0):
    return "rgb <{:.3f}, {:.3f}, {:.3f}>".format(*(rng.random() * brightest for _ in range(3)))


with open(sys.argv[1], encoding="utf-8") as f:
    p = json.load(f)
if p["width"] % 2:
    print("width must be even", file=sys.stderr)
    sys.exit(65)
rng = random.Random(f"{p['seed']} {p['prompt']}")
scene = [
    "#version 3.7; global_settings { assumed_gamma 1 }",
    "camera { spherical angle 360 180 location <0, 1.5, 0> look_at <0, 1.5, 1> }",
    "light_source { <20, 40, -30> rgb 1 }",
    f"sky_sphere {{ pigment {{ gradient y color_map {{ [0 {colour(rng)}] [0.6 {colour(rng, 0.6)}] }} }} }}",
    f"plane {{ y, 0 pigment {{ checker {colour(rng)}, {colour(rng, 0.5)} }} finish {{ reflection 0.1 }} }}",
]
for _ in range(rng.randrange(12, 40)):
    shape = rng.choice(SHAPES).format(f"{0.5 + rng.random() * 1.2:.3f}", f"{rng.random() * 90:.1f}")
    look = f"pigment {{ {colour(rng)} }} finish {{ phong 0.8 reflection {rng.random() * 0.3:.2f} }}"
    place = f"translate z * {4 + rng.random() * 9:.3f} rotate y * {rng.random() * 360:.2f}"
    scene.append(f"{shape} {look} {place} }}")
with open("generated.pov", "w", encoding="ascii") as f:
    f.write("\n".join(scene) + "\n")
render = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "panorama", "render.sh")
os.execv(render, [render, "generated.pov", f"{sys.argv[2]}/panorama.png", str(p["width"]), str(p["width"] // 2)])
