#!/usr/bin/env python3
"""Plays a piece of music into a file of Ogg Vorbis, by way of a WAV: music.py PARAMS OUTPUT

The prompt and the seed choose its scale, its tempo and its notes. Csound gets numbers alone, never the prompt.
"""
import json
import os
import random
import subprocess
import sys

SCALES = [[0, 2, 4, 7, 9], [0, 3, 5, 7, 10], [0, 2, 4, 5, 7, 9, 11], [0, 2, 3, 5, 7, 8, 10]]
# A note has a pitch in Hz, an amplitude, and a place from 0 (left) to 1.
PIECE = """<CsoundSynthesizer>
<CsInstruments>
sr = 44100
ksmps = 64
nchnls = 2
0dbfs = 1
giWave ftgen 1, 0, 4096, 10, 1, {partials}
instr Note
  kEnvelope linseg 0, 0.01, 1, p3 * 0.6, 0.5, p3 * 0.4, 0
  aSound poscil p5 * kEnvelope, p4, giWave
  outs aSound * sqrt(1 - p6), aSound * sqrt(p6)
endin
instr Progress
  printks "::progress %.2f/%.2f s\\n", p3 / 50, timeinsts(), p3
endin
</CsInstruments>
<CsScore>
i "Progress" 0 {duration}
{notes}
e
</CsScore>
</CsoundSynthesizer>
"""


def compose(rng, duration):
    """Yields notes: a bass of two beats, a chord of four, and a melody that walks along the scale."""
    scale, root, beat = rng.choice(SCALES), rng.randrange(45, 57), 60 / rng.randrange(70, 150)

    def note(start, length, step, amplitude):
        octave, degree = divmod(step, len(scale))
        hz = 440 * 2 ** ((root + 12 * octave + scale[degree] - 69) / 12)
        length = min(length, duration - start)
        if length > 0.02:
            yield f'i "Note" {start:.4f} {length:.4f} {hz:.3f} {amplitude} {0.2 + rng.random() * 0.6:.2f}'

    step = len(scale)
    for n in range(int(duration / beat) + 1):
        if n % 4 == 0:
            chord = rng.randrange(len(scale))
            for third in 0, 2, 4:
                yield from note(n * beat, 4 * beat, chord + third, 0.07)
        if n % 2 == 0:
            yield from note(n * beat, 2 * beat, chord - len(scale), 0.2)
        for half in rng.choice([[0], [0, 0.5], [0.5]]):
            step = min(max(step + rng.randrange(-2, 3), 0), 3 * len(scale))
            yield from note((n + half) * beat, beat / 2, step, 0.2)


with open(sys.argv[1], encoding="utf-8") as f:
    p = json.load(f)
rng = random.Random(f"{p['seed']} {p['prompt']}")
partials = ", ".join(f"{rng.random() / n:.3f}" for n in range(2, 7))
with open("music.csd", "w", encoding="ascii") as f:
    f.write(PIECE.format(partials=partials, duration=p["duration"], notes="\n".join(compose(rng, p["duration"]))))
quiet = ["-d", "-m", "0", "-+msg_color=0"]  # no windows; the lines of progress without colours
subprocess.run(["csound", *quiet, "--wave", "-o", "music.wav", "music.csd"], check=True)
exact = ["-fflags", "+bitexact", "-flags:a", "+bitexact"]  # the same music is the same file
ffmpeg = ["ffmpeg", "-v", "error", "-nostdin", "-i", "music.wav", "-c:a", "libvorbis", *exact]
os.execvp("ffmpeg", [*ffmpeg, f"{sys.argv[2]}/music.ogg"])
