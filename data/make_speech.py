"""Let a speech synthesiser say ten words in many voices, add noise, and write log-mel frames.

    apt-get install espeak-ng             (Debian 12 has 1.51, which made the file; other versions sound different)
    python data/make_speech.py            (a minute on one core)

writes data/speech/words.npz: each word by each voice, in two accents, at two speeds and two pitches. The voices are
espeak-ng's variants; some of them are heard in the test alone. espeak-ng is under the GNU General Public License 3;
the sound that it makes is not a work based on it, so the licence does not extend to this file.

The frames: 22,050 samples a second, cut where the sound begins and ends, put at a random place of a window of 0.8 s,
white noise added at 0 to 20 dB below the speech. Then the power of a Hann window of 1,024 samples every 441 (20 ms),
summed under 20 triangles, evenly spaced on the mel scale from 100 to 8,000 Hz, mel(f) = 2595 log10(1 + f / 700),
as 10 log10, in steps of 2 dB above 80 dB below the loudest value of the word.
"""

import io
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np

FILE = Path(__file__).parent / "speech" / "words.npz"
WORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
HEARD = (
    *("m1", "m2", "m3", "m4", "m5", "m6", "f1", "f2", "f3", "adam", "Alex", "Alicia", "Andrea", "Annie"),
    *("caleb", "Denis", "Gene", "linda", "Marco", "pablo"),
)
NEW = ("m7", "m8", "f4", "f5", "belinda", "edward", "Michael", "steph")
ACCENTS, SPEEDS, PITCHES = (
    ("en-us", "en-gb-scotland"),
    (140, 180),
    (35, 65),
)  # words a minute; espeak-ng's pitch, 0 to 99
RATE, FRAME, HOP, FRAMES, BANDS = 22050, 1024, 441, 40, 20
LOWEST, HIGHEST = 100.0, 8000.0  # Hz
STEP, RANGE = 2.0, 80.0  # dB


def spoken(word: str, voice: str, accent: str, speed: int, pitch: int) -> np.ndarray:
    """The sound of a word without the silence around it: float64 [samples] in −1..1."""
    command = ["espeak-ng", "-v", f"{accent}+{voice}", "-s", str(speed), "-p", str(pitch), "--stdout", word]
    try:
        made = subprocess.run(command, capture_output=True, check=True).stdout
    except FileNotFoundError:
        raise SystemExit("espeak-ng is needed: apt-get install espeak-ng") from None
    with wave.open(io.BytesIO(made)) as sound:
        if (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) != (RATE, 1, 2):
            raise SystemExit(f"{' '.join(command)}: expected {RATE} samples a second, one channel, 16 bits")
        samples = np.frombuffer(sound.readframes(sound.getnframes()), "<i2") / 32768
    loud = np.flatnonzero(np.abs(samples) > 0.01 * np.abs(samples).max())
    return samples[loud[0] : loud[-1] + 1]


def in_noise(sound: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The word at a random place of the window, in white noise: float64 [samples of all frames]."""
    window = np.zeros((FRAMES - 1) * HOP + FRAME)
    sound = sound[: len(window)]
    start = rng.integers(0, len(window) - len(sound) + 1)
    window[start : start + len(sound)] = sound
    below = rng.uniform(0, 20)
    return window + rng.normal(0, np.sqrt(np.mean(sound**2)) * 10 ** (-below / 20), len(window))


def mel_filters() -> np.ndarray:
    """The triangles on the mel scale: float64 [bands, frequencies]."""
    mel = np.linspace(2595 * np.log10(1 + LOWEST / 700), 2595 * np.log10(1 + HIGHEST / 700), BANDS + 2)
    edges = 700 * (10 ** (mel / 2595) - 1)
    frequencies = np.fft.rfftfreq(FRAME, 1 / RATE)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (frequencies - low) / (middle - low), (high - frequencies) / (high - middle)
    return np.clip(np.minimum(rising, falling), 0, None)


def log_mel(sound: np.ndarray) -> np.ndarray:
    """The levels of all bands and frames in steps of 2 dB: uint8 [bands, frames] of 0..40."""
    frames = np.lib.stride_tricks.sliding_window_view(sound, FRAME)[::HOP] * np.hanning(FRAME)
    power = mel_filters() @ (np.abs(np.fft.rfft(frames)) ** 2).T
    level = 10 * np.log10(np.maximum(power / power.max(), 10 ** (-RANGE / 10)))
    return np.rint((level + RANGE) / STEP).astype(np.uint8)


def make(voices: tuple[str, ...], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All words of some voices: frames uint8 [n, bands, frames], numbers of words and of voices uint8 [n]."""
    frames, labels, speakers, sounds = [], [], [], set()
    for number, voice in enumerate(voices):
        print(voice, file=sys.stderr)
        for label, word in enumerate(WORDS):
            for accent in ACCENTS:
                for speed in SPEEDS:
                    for pitch in PITCHES:
                        sound = spoken(word, voice, accent, speed, pitch)
                        sounds.add(sound.tobytes())
                        frames.append(log_mel(in_noise(sound, rng)))
                        labels.append(label)
                        speakers.append(number)
    if len(sounds) < len(frames):  # espeak-ng takes a voice that it does not know for its own, without a word
        raise SystemExit(f"of {len(frames)} utterances only {len(sounds)} differ: is there a voice that is missing?")
    return np.stack(frames), np.array(labels, np.uint8), np.array(speakers, np.uint8)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    parts = {}
    for part, voices in (("train", HEARD), ("test", NEW)):
        parts[f"{part}_frames"], parts[f"{part}_words"], parts[f"{part}_voices"] = make(voices, rng)
    np.savez_compressed(FILE, words=np.array(WORDS), voices=np.array(HEARD + NEW), **parts)
    print(f"{FILE}: {sum(len(parts[f'{part}_words']) for part in ('train', 'test')):,} utterances")
