package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
)

func TestG01GUIDOnTheWire(t *testing.T) {
	const want = "c98b91356d19ea409779889d79b753f0" // the example of .NET's documentation
	got := AppendGUIDs(nil, job)
	if hex.EncodeToString(got) != want {
		t.Errorf("got %x, want %s", got, want)
	}
	all, err := GUIDs(append(got, AppendGUIDs(nil, attempt)...))
	if err != nil || len(all) != 2 || all[0] != job || all[1] != attempt {
		t.Errorf("GUIDs = %v, %v", all, err)
	}
	if _, err := GUIDs(got[:15]); !errors.Is(err, ErrFrame) {
		t.Errorf("GUIDs of 15 bytes: %v, want %v", err, ErrFrame)
	}
}

func TestG20GUIDAsText(t *testing.T) {
	for _, text := range []string{
		"35918bc9-196d-40ea-9779-889d79b753f0", "35918BC9-196D-40EA-9779-889D79B753F0", "35918bc9196d40ea9779889d79b753f0", "35918BC9196D40EA9779889D79B753F0",
	} {
		if got, err := ParseGUID(text); got != job || err != nil {
			t.Errorf("ParseGUID(%q) = %s, %v", text, got, err)
		}
	}
	if got := job.String(); got != "35918bc9-196d-40ea-9779-889d79b753f0" {
		t.Errorf("String = %s", got)
	}
	if got := job.N(); got != "35918bc9196d40ea9779889d79b753f0" {
		t.Errorf("N = %s", got)
	}
	for _, text := range []string{
		"", "x", "{35918bc9-196d-40ea-9779-889d79b753f0}", "35918bc9-196d-40ea-9779-889d79b753f", "35918bc9-196d-40ea-9779-889d79b753f00",
		"35918bc9196d-40ea-9779-889d79b753f0-", "35918bc9-196d-40ea-9779-889d79b753fg", "35918bc9 196d 40ea 9779 889d79b753f0", "35918bc9-196d-40ea-9779889d-79b753f0",
	} {
		g := attempt
		if err := g.UnmarshalText([]byte(text)); err == nil || g != attempt {
			t.Errorf("UnmarshalText(%q) has made %s with error %v", text, g, err)
		}
	}
}

func TestNewGUIDIsRandomOfVersion4(t *testing.T) {
	a, b := NewGUID(), NewGUID()
	if a == b || a.IsZero() || a[6]>>4 != 4 || a[8]>>6 != 2 {
		t.Errorf("NewGUID = %s, then %s", a, b)
	}
}

// FuzzF2GUID checks that the forms of a GUID can be read back.
func FuzzF2GUID(f *testing.F) {
	f.Add(AppendGUIDs(nil, job))
	f.Add([]byte("35918bc9-196d-40ea-9779-889d79b753f0"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if g, err := ParseGUID(string(in)); err == nil {
			for _, text := range []string{g.String(), g.N()} {
				if again, err := ParseGUID(text); again != g || err != nil {
					t.Errorf("ParseGUID(%s) = %s, %v, want %s", text, again, err, g)
				}
			}
		}
		all, err := GUIDs(in)
		if (err == nil) != (len(in)%16 == 0) {
			t.Errorf("GUIDs of %d bytes: %v", len(in), err)
		}
		if err == nil && !bytes.Equal(AppendGUIDs(nil, all...), in) {
			t.Errorf("GUIDs(%x) = %v, which are written as %x", in, all, AppendGUIDs(nil, all...))
		}
	})
}
