package font

import "testing"

func TestEveryEmbeddedTableCanBeRead(t *testing.T) {
	cmaps, collections := 0, 0
	for name := range tableIndex() {
		table, _ := openTable(name)
		if ordering, ok := collectionOf(name); ok {
			collections++
			if table.collection(); len(table) > 0 {
				t.Errorf("%s: %d bytes are left", name, len(table))
			}
			if collectionText(ordering) == nil {
				t.Errorf("%s is not found", ordering)
			}
			continue
		}
		cmaps++
		if table.cmap(); len(table) > 0 {
			t.Errorf("%s: %d bytes are left", name, len(table))
		}
		c, ok := predefined(name)
		if !ok || collectionText(c.ordering) == nil {
			t.Errorf("%s has no collection", name)
		}
		checkSpans(t, name, c)
	}
	if cmaps < 190 || collections != 6 {
		t.Errorf("%d CMaps and %d collections", cmaps, collections)
	}
}

func checkSpans(t *testing.T, name string, c *CMap) {
	t.Helper()
	for size := range c.cids {
		list := &c.cids[size]
		if list.nested {
			t.Errorf("%s: ranges of %d bytes overlap", name, size)
		}
		for _, e := range list.list {
			if e.hi < e.lo || e.value+e.hi-e.lo > maxCID || uint64(e.hi) >= 1<<(8*size) {
				t.Errorf("%s: range %x to %x from CID %d", name, e.lo, e.hi, e.value)
			}
		}
	}
}

// Table 116 of ISO 32000-2.
func TestF71EveryPredefinedCMapIsKnown(t *testing.T) {
	for _, name := range []string{
		"GB-EUC-H", "GB-EUC-V", "GBpc-EUC-H", "GBpc-EUC-V", "GBK-EUC-H", "GBK-EUC-V", "GBKp-EUC-H", "GBKp-EUC-V", "GBK2K-H", "GBK2K-V",
		"UniGB-UCS2-H", "UniGB-UCS2-V", "UniGB-UTF16-H", "UniGB-UTF16-V",
		"B5pc-H", "B5pc-V", "HKscs-B5-H", "HKscs-B5-V", "ETen-B5-H", "ETen-B5-V", "ETenms-B5-H", "ETenms-B5-V", "CNS-EUC-H", "CNS-EUC-V",
		"UniCNS-UCS2-H", "UniCNS-UCS2-V", "UniCNS-UTF16-H", "UniCNS-UTF16-V",
		"83pv-RKSJ-H", "90ms-RKSJ-H", "90ms-RKSJ-V", "90msp-RKSJ-H", "90msp-RKSJ-V", "90pv-RKSJ-H", "Add-RKSJ-H", "Add-RKSJ-V", "EUC-H", "EUC-V",
		"Ext-RKSJ-H", "Ext-RKSJ-V", "H", "V", "UniJIS-UCS2-H", "UniJIS-UCS2-V", "UniJIS-UCS2-HW-H", "UniJIS-UCS2-HW-V", "UniJIS-UTF16-H", "UniJIS-UTF16-V",
		"KSC-EUC-H", "KSC-EUC-V", "KSCms-UHC-H", "KSCms-UHC-V", "KSCms-UHC-HW-H", "KSCms-UHC-HW-V", "KSCpc-EUC-H",
		"UniKS-UCS2-H", "UniKS-UCS2-V", "UniKS-UTF16-H", "UniKS-UTF16-V",
		"Identity-H", "Identity-V",
	} {
		if c, ok := predefined(name); !ok || c.vertical != (name[len(name)-1] == 'V') {
			t.Errorf("%s: known %v", name, ok)
		}
	}
}

// CIDs, not text: where a CID is wrong the code may still be read as Unicode.
func TestF71CIDsOfUnicodeCMaps(t *testing.T) {
	tests := []struct {
		name string
		code uint32
		size int
		cid  uint32
	}{
		{"UniJIS-UTF32-H", 0x65e5, 4, 3284},
		{"UniJIS-UTF16-H", 0x65e5, 2, 3284},
		{"UniJIS-UTF16-H", 0xd840dc0b, 4, 13839},
		{"UniJIS-UTF8-H", 0xe697a5, 3, 3284},
		{"UniJIS-UTF8-H", 0xf0a0808b, 4, 13839},
		{"UniJIS-UTF8-H", 0x7e00, 2, 0}, // a character and a byte too many
		{"UniJIS-UTF16-H", 0x65, 1, 0},
		{"UniJIS-UTF16-V", 0x3001, 2, 7887}, // differs from horizontal writing
		{"90ms-RKSJ-H", 0x93fa, 2, 3284},
		{"90ms-RKSJ-H", 0x1f, 1, 231}, // notdef range
	}
	for _, tt := range tests {
		c, ok := predefined(tt.name)
		if !ok {
			t.Fatalf("%s is not known", tt.name)
		}
		if got := c.CID(tt.code, tt.size); got != tt.cid {
			t.Errorf("%s: code %x is CID %d, want %d", tt.name, tt.code, got, tt.cid)
		}
	}
}

func BenchmarkPredefined(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		loaded.cmaps = nil
		if _, ok := predefined("UniJIS-UTF16-H"); !ok {
			b.Fatal("not known")
		}
	}
}

func BenchmarkCollection(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		table, _ := openTable(collectionTable("Japan1"))
		table.collection()
	}
}
