package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
)

var (
	portableForm = jobs.Form(`^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9_-])?$`)
	// deviceForm matches what Windows takes for a device, whatever its extension.
	deviceForm = jobs.Form(`(?i)^(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)`)
)

// isPortable reports whether a file with this name can be saved on every system: a letter or a digit, then at most 127
// letters, digits, ".", "_" and "-", no "." last, and no device of Windows. It is a name that CheckName accepts.
func isPortable(name string) bool {
	return portableForm().MatchString(name) && !deviceForm().MatchString(name) && CheckName(name) == nil
}

// maxExtension is how long an extension may be, with its dot; what is longer is none.
const maxExtension = 16

// PortableName returns the name under which a file of any name can be stored and saved on every system: its own, if
// that is possible, else one that is made of it, such as file___-8108c8bf.mp4 of 结果.mp4. Different names stay different
// (by 32 bits of a hash), unless a file has the name already that is made of another one.
func PortableName(name string) string {
	if isPortable(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	tag := "-" + hex.EncodeToString(sum[:4])
	stem := strings.Map(portable, strings.TrimRight(name, ". "))
	ext := path.Ext(stem)
	if len(ext) > maxExtension {
		ext = ""
	}
	stem = strings.TrimSuffix(stem, ext)
	if stem == "" || strings.ContainsRune("._-", rune(stem[0])) || deviceForm().MatchString(stem) {
		stem = "file_" + stem
	}
	return stem[:min(len(stem), 128-len(tag)-len(ext))] + tag + ext
}

// portable returns what stands for a character, or for a byte that is no UTF-8.
func portable(c rune) rune {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		return c
	}
	return '_'
}
