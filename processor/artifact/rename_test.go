package artifact_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/processor/artifact"
)

// The rule, written down once more.
var (
	portable = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._-]{0,127}\z`)
	devices  = strings.Fields("con prn aux nul com0 com1 com2 com3 com4 com5 com6 com7 com8 com9 lpt0 lpt1 lpt2 lpt3 lpt4 lpt5 lpt6 lpt7 lpt8 lpt9")
)

func isPortable(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	return portable.MatchString(name) && !strings.HasSuffix(name, ".") && !slices.Contains(devices, strings.ToLower(base)) && artifact.CheckName(name) == nil
}

func TestR47NamesThatCannotBeSavedEverywhereAreMadeToBe(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, tt := range []struct{ name, want string }{
		{"motion.mp4", "motion.mp4"},
		{"0", "0"},
		{"a..b", "a..b"},
		{"console.log", "console.log"},
		{"com10", "com10"},
		{long[:128], long[:128]},

		{"结果.mp4", "file___-8108c8bf.mp4"},
		{"größe.tar.gz", "gr__e.tar-ef5d3715.gz"},
		{"a b", "a_b-c8687a08"},
		{"a:b", "a_b-6783a31e"},
		{"a\nb\xff.png", "a_b_-dc3ae4c2.png"},
		{"_x.png", "file__x-4cab32b4.png"},
		{".bashrc", "file_-b7cf3e96.bashrc"},
		{"-rf", "file_-rf-686c39ac"},
		{"...", "file_-ab5df625"},
		{"clip.mp4. .", "clip-ddcc462e.mp4"},
		{"CON", "file_CON-a3dbc4b6"},
		{"nul.txt", "file_nul-7f3cbdd5.txt"},
		{"Com1.tar.gz", "file_Com1.tar-d4723656.gz"},
		{"result.json", "result-c9571d90.json"},
		{long + ".mp4", long[:115] + "-43459d16.mp4"},
		{long + "." + long, long[:119] + "-6189962f"},
	} {
		if got := artifact.PortableName(tt.name); got != tt.want || !isPortable(got) {
			t.Errorf("%q becomes %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestR47DevicesOfWindowsAreRenamed(t *testing.T) {
	for _, device := range devices {
		for _, name := range []string{device, strings.ToUpper(device), device + ".png", device + ".tar.gz"} {
			if got := artifact.PortableName(name); got == name || !isPortable(got) {
				t.Errorf("%q becomes %q", name, got)
			}
		}
	}
}

func FuzzR47PortableNames(f *testing.F) {
	for _, name := range []string{"", "a", "结果.mp4", "..", "/etc/passwd", "CON.x", "a. ", "_", "result.json", strings.Repeat("é", 200) + ".png", "a." + strings.Repeat("x", 15), "\xff"} {
		f.Add(name, name+".")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		first, second := artifact.PortableName(a), artifact.PortableName(b)
		for _, name := range []string{first, second} {
			if !isPortable(name) || artifact.PortableName(name) != name {
				t.Errorf("%q of %q or %q cannot be saved everywhere, or changes again", name, a, b)
			}
		}
		if first != artifact.PortableName(a) || isPortable(a) && first != a {
			t.Errorf("%q becomes %q, and %q", a, first, artifact.PortableName(a))
		}
		if a != b && first == second && first != a && second != b {
			t.Errorf("%q and %q both become %q", a, b, first)
		}
	})
}
