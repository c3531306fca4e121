package redact

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	twelve = "legal winner thank year wave sausage worth useful legal winner thank yellow"
	jwt    = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
	digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
)

var keyPEM = "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("MIIEpAIBAAKCAQEA7bq0YxkCANARYc9dS1v2Jk3pQwErTyUiOpAsDfGhJkLzXcV\n", 12) + "CANARY==\n-----END RSA PRIVATE KEY-----"

func numbered(words, sep string) string {
	var b strings.Builder
	for i, w := range strings.Fields(words) {
		b.WriteString(string(rune('1'+i%9)) + ". " + w + sep)
	}
	return b.String()
}

func TestJ27SecretsAreTakenOutOfText(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"PEM", "key:\n" + keyPEM + "\nrest", "key:\n[redacted]\nrest"},
		{"PEM with escaped lines", `{"k":"` + strings.ReplaceAll(keyPEM, "\n", `\n`) + `"}`, `{"k":"[redacted]"}`},
		{"PEM without an end", "a " + strings.TrimSuffix(keyPEM, "-----END RSA PRIVATE KEY-----"), "a [redacted]"},
		{"certificate", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "[redacted]"},
		{"OpenSSH in four dashes", "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nAAAA\n---- END SSH2 ENCRYPTED PRIVATE KEY ----", "[redacted]"},
		{"kubeconfig", "users:\n- name: admin\n  user:\n    client-certificate-data: TFMwdExT\n    client-key-data: TFMwdExTMUNSVWRKVGlC\n    token: abc.def\n", "users:\n- name: admin\n  user:\n    client-certificate-data: [redacted]\n    client-key-data: [redacted]\n    token: [redacted]\n"},
		{"kubeconfig as JSON", `{"user":{"client-key-data":"TFMwdExT","token":"abc"}}`, `{"user":{"client-key-data":"[redacted]","token":"[redacted]"}}`},
		{"YAML block", "password: |\n  hunter2\n  more\nnext: 1", "password: |\n[redacted]\n[redacted]\nnext: 1"},
		{"value in the next line", "client-key-data:\n  LS0tLS1CRUdJTg\nnext: 1", "client-key-data:\n[redacted]\nnext: 1"},
		{"mnemonic of 12", "m " + twelve + ".", "m [redacted]."},
		{"mnemonic of 24", twelve + " " + twelve, "[redacted]"},
		{"mnemonic in capitals", strings.ToUpper(twelve), "[redacted]"},
		{"mnemonic in a list", `["` + strings.ReplaceAll(twelve, " ", `","`) + `"]`, `["[redacted]"]`},
		{"mnemonic, numbered", numbered(twelve, " "), "1. [redacted] "},
		{"mnemonic, numbered, a word a line", numbered(twelve, "\n"), "1. [redacted]\n"},
		{"mnemonic, a word a line", strings.ReplaceAll(twelve, " ", "\n"), "[redacted]"},
		{"mnemonic, escaped lines", strings.ReplaceAll(twelve, " ", `\n`), "[redacted]"},
		{"part of a mnemonic under its name", "MNEMONIC=legal winner thank", "MNEMONIC=[redacted]"},
		{"JWT", "got " + jwt + " back", "got [redacted] back"},
		{"base64", "tx " + strings.Repeat("CANARY7/", 40) + "==", "tx [redacted]"},
		{"base64 in lines", strings.Repeat("Q0FOQVJZ"+strings.Repeat("x9/A", 17)+"\n", 5), "[redacted]\n"},
		{"hex behind 0x", "raw 0x" + strings.Repeat("f86c", 40), "raw [redacted]"},
		{"hex", strings.Repeat("f86c0a85", 40), "[redacted]"},
		{"signed transaction without 0x", "raw " + strings.Repeat("f8", 109) + ", nonce 7", "raw [redacted], nonce 7"},
		{"signed transaction in capitals", strings.Repeat("F8", 109), "[redacted]"},
		{"hex a digit longer than a digest", "raw=" + digest + digest + "0", "raw=[redacted]"},
		{"hex behind a word", `{"x":"tx_` + strings.Repeat("02f8", 33) + `"}`, `{"x":"[redacted]"}`},
		{"hex in lines longer than digests", strings.Repeat(strings.Repeat("f8", 100)+"\n", 3) + "f86c", "[redacted]"},
		{"base64 beside digests", digest + "-" + strings.Repeat("CANARY7/", 40), "[redacted]"},
		{"Bearer", "Authorization: Bearer abcdefgh", "Authorization: Bearer [redacted]"},
		{"Bearer of a header as Go prints it", "map[Authorization:[Bearer abc] X:[1]]", "map[Authorization:[redacted] X:[1]]"},
		{"Basic", "sent Basic YWxhZGRpbjpvcGVu", "sent Basic [redacted]"},
		{"environment", "REDIS_PASSWORD=hunter2 exited", "REDIS_PASSWORD=[redacted] exited"},
		{"password with blanks in YAML", "  password: hun ter 2", "  password: [redacted]"},
		{"quoted", `secret = "hun ter 2", next`, `secret = "[redacted]", next`},
		{"quoted with an escaped quote", `{"secret":"hun\"ter2"}`, `{"secret":"[redacted]"}`},
		{"JSON inside of a string", `"{\"password\":\"hunter2\",\"a\":1}"`, `"{\"password\":\"[redacted]\",\"a\":1}"`},
		{"quote that never ends", `token="hunter2`, `token="[redacted]`},
		{"flag", "run --password hunter2 now", "run --password [redacted] now"},
		{"flag in a list", `["--api-key","hunter2"]`, `["--api-key","[redacted]"]`},
		{"XML", "<password>hunter2</password>", "<password>[redacted]</password>"},
		{"query", "/x?access_token=abc&page=2", "/x?access_token=[redacted]&page=2"},
		{"URL", "dial redis://u:hunter2@host:6379/0", "dial redis://[redacted]@host:6379/0"},
		{"AWS", "id AKIAIOSFODNN7EXAMPLE.", "id [redacted]."},
		{"Google", "key AIzaSyA1234567890abcdefghijklmnopqrstuv", "key [redacted]"},
		{"GitHub", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "[redacted]"},
		{"Slack", "xoxb-123456789012-abcdefABCDEF", "[redacted]"},
		{"ours", "zpw_0123456789abcdef zpe_0123456789abcdef bft_0123456789abcdef", "[redacted] [redacted] [redacted]"},
		{"private key by its name", `private_key: 0x4c0883a6`, `private_key: [redacted]`},
		{"seed", "seed: abandon-ability", "seed: [redacted]"},
		{"cookie", "Set-Cookie: a=b; c=d", "Set-Cookie: [redacted]"},
		{"tokens behind escaped line breaks", `a\nzpw_0123456789abcdef\tghp_16C7e42F292c6912E7710c838347Ae178B4a\r\nsk-0123456789abcdefghijkl`, `a\n[redacted]\t[redacted]\r\n[redacted]`},
		{"what else begins behind one", `{"a":"x\n--password hunter2\nBasic YWxhZGRpbjpvcGVu\nsk_live_0123456789"}`, `{"a":"x\n--password [redacted]\nBasic [redacted]\n[redacted]"}`},
		{"behind what is written out", `\x00bft_0123456789 \u202ezpw_0123456789 \U000e0041AKIA0123456789ABCDEF`, `\x00[redacted] \u202e[redacted] \U000e0041[redacted]`},
		{"behind a color", "\x1b[31mbft_0123456789 " + `\x1b[1;31mghp_0123456789abcdef\x1b[0m`, "\x1b[31m[redacted] " + `\x1b[1;31m[redacted]\x1b[0m`},
		{"behind an escaped backslash", `{"a":"\\nbft_0123456789"}`, `{"a":"\\n[redacted]"}`},
		{"name of two words", "Private key: 0x4c0883a6, api key=abc", "Private key: [redacted], api key=[redacted]"},
		{"words behind a name of two", "Seed phrase: legal winner thank\nPass phrase: hun ter\nRecovery phrase: legal winner", "Seed phrase: [redacted]\nPass phrase: [redacted]\nRecovery phrase: [redacted]"},
		{"signed transaction behind two words", "raw tx: 02f8", "raw tx: [redacted]"},
		{"signature", "Signature: 3045022100ab, signature: Zk7CaNaRyxQ", "Signature: [redacted], signature: [redacted]"},
		{"signature of few letters", "signature: deadbeef signature=parent signature:parent", "signature: [redacted] signature=[redacted] signature:[redacted]"},
		{"signature in quotes", `{"signature": "parent"} x_signature: parent`, `{"signature": "[redacted]"} x_signature: [redacted]`},
		{"signature longer than a word", "signature: " + strings.Repeat("qwertz", 3), "signature: [redacted]"},
		{"signed transaction by its name", `"rawTx":"02f8"`, `"rawTx":"[redacted]"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Text(tt.in)
			if got != tt.want {
				t.Errorf("Text(%q)\n got %q\nwant %q", tt.in, got, tt.want)
			}
			if again := Text(got); again != got {
				t.Errorf("again it is %q", again)
			}
		})
	}
}

var harmlessTexts = []string{
	"step 2/5 topic: skipped: topic projects/p/topics/jobs is there already",
	"stored results/01K2Z3Y4X5W6V7T8S9R0Q1P2N3/result.json (1234 bytes)",
	"job_01K2Z3Y4X5W6V7T8S9R0Q1P2N3 is running",
	"sha256 " + digest + " of report-2026.pdf",
	digest + "\n" + digest + "\n" + digest + "\n" + digest + "\n" + digest,
	"sha512 " + digest + digest,
	digest + digest + " " + digest + digest,
	digest + digest + "\n" + digest + digest,
	digest + digest + `\n` + digest + digest,
	digest + digest + "-" + digest + digest,
	digest + digest + "/" + digest + digest + "_" + digest + digest,
	digest + digest + ":" + digest + digest + "=" + digest + digest + "," + digest + digest,
	"sha256-" + strings.Repeat(digest+"+", 8),
	strings.Repeat(digest+"-"+digest+`\n`, 8),
	"/srv/data/in/2026/11/22/customer-report_final.v2.pdf",
	"f47ac10b-58cc-4372-a567-0e02b2c3d479",
	"The basic information about bearer certificates is in the manual.",
	"A token bucket limits how fast the secret agents may act; passwords are no concern of it.",
	"tokens=512 tokenCount=7 token_type: none, seed=42, max_tokens: 100",
	"Please open the small box near the big wooden chair and then close the door again.",
	"INVALID_ENROLL_TOKEN: this is used up",
	"took=3ms err=null key=a/b/c object: in/a.pdf rate: 10/s",
	"KUBECONFIG=/root/.kube/config PWD=/root",
	"--- PASS: TestSomething (0.01s)",
	"-----------------------------------------------------------------",
	"get https://host/a/b?c=d and gs://bucket/a@b.pdf",
	"日本語のログ: ページ 3 を処理しました",
	"object key: in/a.pdf, primary key: 7, the key: a, public key: b",
	"x509: invalid signature: parent certificate cannot sign this kind of certificate",
	`verify: bad signature: crypto/rsa: verification error`,
	`{"err":"invalid signature: mismatch"}`,
	"author: x, keyboard: y, monkey=z, compass=n",
	strings.Repeat("=", 400),
	"start\nstop",
	"retry 1\nretry 2\nretry 3\nretry 4\nretry 5",
}

func TestJ27OrdinaryTextStays(t *testing.T) {
	for _, s := range harmlessTexts {
		if got := Text(s); got != s {
			t.Errorf("Text(%q)\n got %q", s, got)
		}
	}
}

func TestJ27SecretsOfSeveralLinesAreHiddenLineByLine(t *testing.T) {
	tests := []struct {
		name, in, canary string
		shows            int // lines that may stay as they are
	}{
		{"PEM", "before\n" + keyPEM + "\nafter", "CANARY", 2},
		{"PEM after a word, twice", "stage\n" + keyPEM + "\nstage\n" + strings.ReplaceAll(keyPEM, "RSA ", "") + "\nafter", "CANARY", 3},
		{"PEM, indented", "before\n  " + strings.ReplaceAll(keyPEM, "\n", "\n  ") + "\nafter", "CANARY", 2},
		{"YAML block", "token: >-\n  CANARY\n  CANARY\nnext: 1", "CANARY", 2},
		{"mnemonic, a word a line", strings.ReplaceAll(twelve, " ", "\n"), "useful", 3},
		{"mnemonic, numbered", strings.TrimSpace(numbered(twelve, "\n")), "useful", 3},
		{"mnemonic, six words a line", "legal winner thank year wave sausage\nworth useful legal winner thank yellow", "winner", 0},
		{"base64 in lines", strings.Repeat("Q0FOQVJZ"+strings.Repeat("x9/A", 17)+"\n", 5) + "CANARY==", "CANARY", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var lines Lines
			same := 0
			for s := range strings.SplitSeq(tt.in, "\n") {
				got := lines.Line(s)
				if strings.Contains(got, tt.canary) {
					t.Errorf("line %q shows %q", s, tt.canary)
				}
				if got == s {
					same++
				}
			}
			if same > tt.shows {
				t.Errorf("%d lines stay as they are, want at most %d", same, tt.shows)
			}
		})
	}
}

func TestJ27ABeginWithoutAnEndHidesNotEverything(t *testing.T) {
	var lines Lines
	lines.Line("-----BEGIN PRIVATE KEY-----")
	hidden := 0
	for range 1000 {
		if lines.Line("pages 1 to 5 are done") == Mark {
			hidden++
		}
	}
	if hidden > MaxHidden {
		t.Errorf("%d lines are hidden, want at most %d", hidden, MaxHidden)
	}
	lines.Line("-----BEGIN PRIVATE KEY-----")
	for range 1000 {
		if got := lines.Line(strings.Repeat("MIIEpAIB", 8)); got != Mark {
			t.Fatalf("base64 behind a BEGIN shows: %q", got)
		}
	}
}

func TestJ27JSONKeepsItsForm(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing to hide", ` {"b": 1, "a": [true, null, -1.5e3, "x\u00e9"] , "c":{}} `, ` {"b": 1, "a": [true, null, -1.5e3, "x\u00e9"] , "c":{}} `},
		{"by its name", `{"password":"a b","n":1}`, `{"password":"[redacted]","n":1}`},
		{"below a name", `{"secrets":["a",{"x":"b"}]}`, `{"secrets":["[redacted]",{"x":"[redacted]"}]}`},
		{"by its shape, deep", `[[[{"x":"` + jwt + `"}]]]`, `[[[{"x":"[redacted]"}]]]`},
		{"in a key", `{"` + jwt + `":1}`, `{"[redacted]":1}`},
		{"escaped", `{"x":"\u0074oken=abc"}`, `{"x":"token=[redacted]"}`},
		{"mnemonic as a list", `{"w":["a","` + strings.ReplaceAll(twelve, " ", `", "`) + `","b"]}`, `{"w":["a","[redacted]","b"]}`},
		{"PEM as a list of lines", `["a","-----BEGIN PRIVATE KEY-----","MIIEpA","CANARY==","-----END PRIVATE KEY-----",["b"],{"c":["d"]}]`, `["a","[redacted]","[redacted]","[redacted]","[redacted]",["b"],{"c":["d"]}]`},
		{"mnemonic as a list of lines", `["legal winner thank year wave sausage","worth useful legal winner thank yellow"]`, `["[redacted]","[redacted]"]`},
		{"some words of the list", `["open","image","video","text","case","paper"]`, `["open","image","video","text","case","paper"]`},
		{"arguments", `["run","--password","hunter2","-n","3","--token","--secret","a"]`, `["run","--password","[redacted]","-n","3","--token","--secret","[redacted]"]`},
		{"flag at the end", `[["--password"],"a"]`, `[["--password"],"a"]`},
		{"numbers under a name", `{"tokens":512,"seed":"42"}`, `{"tokens":512,"seed":"42"}`},
		{"no JSON", `{"a":`, `"[redacted]"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(JSON(json.RawMessage(tt.in))); got != tt.want {
				t.Errorf("JSON(%s)\n got %s\nwant %s", tt.in, got, tt.want)
			}
		})
	}
}

func TestJ27KeyAfterMissingLinesIsHidden(t *testing.T) {
	var l Lines
	full := strings.Repeat("x9/A", 16)
	if got := l.Line(full); got != full {
		t.Errorf("a line that may be a name is %q", got)
	}
	l.Line("x")
	l.Gap()
	for _, want := range []string{Mark, Mark, "other text", full} {
		line := full
		if want == "other text" {
			line = want
		}
		if got := l.Line(line); got != want {
			t.Errorf("after a gap %q is shown as %q, want %q", line, got, want)
		}
	}
}

func TestPlainLinesCostNoMemory(t *testing.T) {
	var lines Lines
	line := "page 17 of 240: 3 tables, 1204 words, took 12.5ms, next: 18"
	if n := testing.AllocsPerRun(100, func() {
		if Text(line) != line || lines.Line(line) != line {
			t.Error("a plain line was changed")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzText plants a secret in whatever text.
func FuzzText(f *testing.F) {
	const canary = "Zk7CaNaRy9xQ"
	forms := []string{
		"token=" + canary, `"password": "` + canary + `"`, "http://u:" + canary + "@h", "Authorization: Bearer " + canary, "client-key-data: " + canary,
		"-----BEGIN PRIVATE KEY-----\n" + canary + "\n-----END PRIVATE KEY-----", "eyJhbGciOi." + canary + "." + canary, "bft_" + canary, "zpw_" + canary,
		"0x" + strings.Repeat("0123456789abcdef", 9) + "0123456789", "--secret " + canary, `\"api_key\":\"` + canary + `\"`,
		"signature: " + canary, `"signature": "` + canary + `"`,
	}
	for _, s := range harmlessTexts {
		f.Add(s, "", uint8(0))
	}
	f.Add("a\n", "\n  b: |\n", uint8(5))
	f.Add("invalid signature: ", " signature: parent", uint8(12))
	f.Add(`x="`, `'\`, uint8(1))
	f.Fuzz(func(t *testing.T, before, after string, form uint8) {
		secret := forms[int(form)%len(forms)]
		in := before + "\n" + secret + "\n" + after
		got := Text(in)
		if strings.Contains(got, canary) || strings.Contains(got, "0123456789abcdef0123456789abcdef0123456789abcdef") && !strings.Contains(before+after, "0123456789abcdef") {
			if !strings.Contains(before+after, canary) {
				t.Errorf("Text(%q) = %q shows the secret", in, got)
			}
		}
		if again := Text(got); again != got {
			t.Errorf("Text(%q)\n is    %q\n again %q", in, got, again)
		}
		if utf8.ValidString(in) && !utf8.ValidString(got) {
			t.Errorf("Text(%q) = %q is not valid", in, got)
		}
		if !suspicious(before) && applyOnce(before) != before && !strings.Contains(before, "\n") {
			t.Errorf("%q becomes %q and was not suspicious", before, applyOnce(before))
		}
	})
}

func FuzzJSON(f *testing.F) {
	f.Add(`{"a":[1,"b",{"token":"c"}],"mnemonic":["abandon"]}`)
	f.Add(`"\ud800"`)
	f.Fuzz(func(t *testing.T, s string) {
		got := JSON(json.RawMessage(s))
		if !json.Valid(got) {
			t.Errorf("JSON(%q) = %q is no JSON", s, got)
		}
	})
}

func BenchmarkPlainLine(b *testing.B) {
	line := "page 17 of 240: 3 tables, 1204 words, took 12.5ms, next: 18"
	var lines Lines
	b.ReportAllocs()
	for b.Loop() {
		lines.Line(line)
	}
}

func BenchmarkSecretLine(b *testing.B) {
	line := "page 17 of 240: GET https://host/x?token=abcdef took 12.5ms"
	b.ReportAllocs()
	for b.Loop() {
		Text(line)
	}
}

// A token that has a form but no beginning in suspicious would be shown.
func TestEveryFormOfTokenIsFound(t *testing.T) {
	rest := "0123456789abcdefABCDEF0123456789abcdef"
	examples := map[string]string{
		"zp": "zpw_" + rest, "bft_": "bft_" + rest, "KIA": "AKIA" + "0123456789ABCDEF", "SIA": "ASIA" + "0123456789ABCDEF",
		"AIza": "AIza" + rest, "ya29.": "ya29." + rest, "GOCSPX-": "GOCSPX-" + rest, "gh": "gho_" + rest,
		"github_pat_": "github_pat_" + rest, "glpat-": "glpat-" + rest, "xox": "xoxp-" + rest, "xapp-": "xapp-1-" + rest,
		"k_": "rk_test_" + rest, "sk-": "sk-" + rest, "npm_": "npm_" + rest, "hf_": "hf_" + rest, "SG.": "SG." + rest + "." + rest,
	}
	for _, token := range tokens {
		example, ok := examples[token.part]
		if got := Text("it is " + example); !ok || got != "it is "+Mark {
			t.Errorf("%s: %q becomes %q", token.form, example, got)
		}
	}
}
