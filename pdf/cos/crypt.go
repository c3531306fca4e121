package cos

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/md5"
	"crypto/rc4"
	"errors"
	"fmt"
)

// method is how one kind of data is encrypted.
type method uint8

const (
	methodNone method = iota
	methodRC4
	methodAES128
	methodAES256
)

// crypt decrypts the strings and streams of a file: the standard security
// handler of ISO 32000-1, 7.6, with revision 6 from ISO 32000-2.
type crypt struct {
	key     []byte // nil if only attachments are encrypted and the password does not open them
	strings method
	streams method
	named   map[Name]method // crypt filters a single stream may choose
	// metadata is false if metadata streams are left in the clear.
	metadata bool
}

// handler is the encryption dictionary.
type handler struct {
	version, revision int
	keyLength         int    // bytes
	owner, user       []byte // O and U
	ownerKey, userKey []byte // OE and UE, from revision 5 on
	permissions       int32
	id                []byte // the first half of the file's ID
	metadata          bool
}

// initCrypt makes the file's strings and streams readable. It does nothing for
// a file that is not encrypted.
func (f *File) initCrypt() error {
	f.crypt = nil
	if f.Resolve(f.Trailer["Encrypt"]) == nil {
		return nil
	}
	d := f.Dict(f.Trailer["Encrypt"])
	if d == nil {
		return errors.New("read encryption: not a dictionary")
	}
	h := f.handler(d)
	c := &crypt{metadata: h.metadata, strings: methodRC4, streams: methodRC4}
	if h.version >= 4 {
		f.cryptFilters(d, c)
	}
	var err error
	if c.key, err = f.fileKey(d, h); err != nil && !f.onlyAttachments(d, h) {
		return err
	}
	f.crypt = c
	f.forget() // what has been loaded so far was not decrypted
	return nil
}

// fileKey returns the key that the password of f gives.
func (f *File) fileKey(d Dict, h *handler) (key []byte, err error) {
	if name := f.Name(d["Filter"]); name != "Standard" {
		return nil, fmt.Errorf("security handler %.40q: %w", string(name), ErrPassword)
	}
	for _, password := range h.forms(f.password) {
		if key, err = h.open(password); !errors.Is(err, ErrPassword) {
			break
		}
	}
	return key, err
}

// onlyAttachments reports whether strings and streams are in the clear unless
// they say otherwise, as where only the attachments are encrypted (ISO 32000-1,
// 7.6.5.4). No password is needed for the rest.
func (f *File) onlyAttachments(d Dict, h *handler) bool {
	if h.version < 4 {
		return false
	}
	for _, key := range [...]Name{"StmF", "StrF"} {
		if name := f.Name(d[key]); name != "" && name != "Identity" {
			return false
		}
	}
	return true
}

func (f *File) handler(d Dict) *handler {
	integer := func(key Name, missing int) int {
		if n, ok := f.Int(d[key]); ok {
			return n
		}
		return missing
	}
	text := func(key Name) []byte { return []byte(f.String(d[key])) }
	h := &handler{
		version: integer("V", 0), revision: integer("R", 0), keyLength: integer("Length", 40) / 8,
		owner: text("O"), user: text("U"), ownerKey: text("OE"), userKey: text("UE"),
		permissions: int32(uint32(integer("P", 0))), // written signed or unsigned
		metadata:    f.Resolve(d["EncryptMetadata"]) != false,
	}
	if id := f.Array(f.Trailer["ID"]); len(id) > 0 {
		h.id = []byte(f.String(id[0]))
	}
	if h.version == 4 {
		h.keyLength = 16
	}
	if h.version == 1 {
		h.keyLength = 5
	}
	h.keyLength = max(5, min(16, h.keyLength))
	return h
}

// forms returns what a password may be in bytes: UTF-8 from revision 5 on, and
// before that PDFDocEncoding (ISO 32000-2, 7.6.4.3.2), which some writers did
// not know.
func (h *handler) forms(password string) [][]byte {
	forms := [][]byte{[]byte(password)}
	if h.revision < 5 {
		if encoded, ok := encodePDFDoc(password); ok && string(encoded) != password {
			forms = [][]byte{encoded, []byte(password)}
		}
	}
	return forms
}

// cryptFilters reads which method is used for what.
func (f *File) cryptFilters(d Dict, c *crypt) {
	c.named = map[Name]method{"Identity": methodNone}
	for name, filter := range f.Dict(d["CF"]) {
		switch f.Name(f.Dict(filter)["CFM"]) {
		case "V2":
			c.named[name] = methodRC4
		case "AESV2":
			c.named[name] = methodAES128
		case "AESV3":
			c.named[name] = methodAES256
		default:
			c.named[name] = methodNone
		}
	}
	// A name that is not there maps to methodNone, as the default Identity does.
	c.streams, c.strings = c.named[f.Name(d["StmF"])], c.named[f.Name(d["StrF"])]
}

// decryptStrings returns o with its strings decrypted. It may change o.
func (c *crypt) decryptStrings(f *File, o Object, id Ref) Object {
	switch v := o.(type) {
	case String:
		f.Spend(128) // a key schedule each
		if f.over {
			return o
		}
		return String(c.decrypt([]byte(v), id, c.strings))
	case Array:
		for i := range v {
			v[i] = c.decryptStrings(f, v[i], id)
		}
	case Dict:
		for k := range v {
			v[k] = c.decryptStrings(f, v[k], id)
		}
	}
	return o
}

// decryptStream returns the bytes of s as they were before encryption, or
// [ErrPassword] if the key is not known.
func (c *crypt) decryptStream(f *File, s *Stream) ([]byte, error) {
	how := c.streams
	kind := s.Dict["Type"]
	if kind == Name("XRef") || kind == Name("Metadata") && !c.metadata {
		return s.raw, nil
	}
	filters, parms := f.filters(s)
	if len(filters) > 0 && f.Name(filters[0]) == "Crypt" {
		how = methodNone // the default name is Identity
		if len(parms) > 0 {
			how = c.named[f.Name(f.Dict(parms[0])["Name"])]
		}
	}
	if how != methodNone && c.key == nil {
		return nil, fmt.Errorf("decrypt stream %d: %w", s.id.Num, ErrPassword)
	}
	return c.decrypt(s.raw, s.id, how), nil
}

// decrypt returns data decrypted as part of object id. Data that is too short
// for its method becomes empty.
func (c *crypt) decrypt(data []byte, id Ref, how method) []byte {
	switch how {
	case methodNone:
		return data
	case methodRC4:
		return rc4Crypt(c.objectKey(id, nil), data)
	case methodAES128:
		return cbcDecrypt(c.objectKey(id, []byte("sAlT")), data)
	case methodAES256:
		return cbcDecrypt(c.key, data)
	}
	return data
}

// objectKey derives the key for one object (algorithm 1).
func (c *crypt) objectKey(id Ref, salt []byte) []byte {
	h := md5.New()
	h.Write(c.key)
	h.Write([]byte{byte(id.Num), byte(id.Num >> 8), byte(id.Num >> 16), byte(id.Gen), byte(id.Gen >> 8)})
	h.Write(salt)
	return h.Sum(nil)[:min(len(c.key)+5, 16)]
}

// rc4Crypt encrypts or decrypts data; RC4 does not tell the two apart.
func rc4Crypt(key, data []byte) []byte {
	out := make([]byte, len(data))
	r, err := rc4.NewCipher(key)
	if err != nil { // keys here are 5 to 16 bytes long, which RC4 takes
		return nil
	}
	r.XORKeyStream(out, data)
	return out
}

// cbcDecrypt decrypts data, which begins with its initialization vector and
// ends with PKCS #5 padding. Padding that is none is left in place.
func cbcDecrypt(key, data []byte) []byte {
	if len(data) < 2*aes.BlockSize {
		return nil
	}
	body := data[aes.BlockSize : len(data)-len(data)%aes.BlockSize]
	out := make([]byte, len(body))
	if !cbc(key, data[:aes.BlockSize], out, body) {
		return nil
	}
	if pad := int(out[len(out)-1]); pad >= 1 && pad <= aes.BlockSize {
		out = out[:len(out)-pad]
	}
	return out
}

// cbc decrypts src, whole blocks, into dst. It returns false for a key of the
// wrong length.
func cbc(key, iv, dst, src []byte) bool {
	block, err := aes.NewCipher(key)
	if err != nil {
		return false
	}
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(dst, src)
	return true
}

// open returns the file key, or [ErrPassword]. The password may be that of the
// user or of the owner.
func (h *handler) open(password []byte) ([]byte, error) {
	if h.revision >= 5 || h.version >= 5 {
		return h.openAES256(password)
	}
	if len(h.owner) < 32 || len(h.user) < 16 {
		return nil, errors.New("read encryption: O or U is too short")
	}
	if h.version < 1 || h.version > 4 {
		return nil, fmt.Errorf("encryption version %d: %w", h.version, ErrPassword)
	}
	for _, p := range [][]byte{password, h.userPassword(password)} {
		if key := h.fileKey(p); h.isUserKey(key) {
			return key, nil
		}
	}
	return nil, fmt.Errorf("open encryption: %w", ErrPassword)
}

// padding completes short passwords (algorithm 2).
var padding = []byte("\x28\xBF\x4E\x5E\x4E\x75\x8A\x41\x64\x00\x4E\x56\xFF\xFA\x01\x08\x2E\x2E\x00\xB6\xD0\x68\x3E\x80\x2F\x0C\xA9\xFE\x64\x53\x69\x7A")

func pad(password []byte) []byte {
	return append(bytes.Clone(password), padding...)[:32]
}

// fileKey derives the file key from the user's password (algorithm 2).
func (h *handler) fileKey(password []byte) []byte {
	m := md5.New()
	m.Write(pad(password))
	m.Write(h.owner[:32])
	p := uint32(h.permissions)
	m.Write([]byte{byte(p), byte(p >> 8), byte(p >> 16), byte(p >> 24)})
	m.Write(h.id)
	if h.revision >= 4 && !h.metadata {
		m.Write([]byte{0xff, 0xff, 0xff, 0xff})
	}
	key := m.Sum(nil)
	if h.revision >= 3 {
		for range 50 {
			sum := md5.Sum(key[:h.keyLength])
			key = sum[:]
		}
	}
	return key[:h.keyLength]
}

// isUserKey reports whether key is the file key (algorithms 4 and 5).
func (h *handler) isUserKey(key []byte) bool {
	if h.revision < 3 {
		return bytes.Equal(rc4Crypt(key, padding)[:min(32, len(h.user))], h.user[:min(32, len(h.user))])
	}
	sum := md5.Sum(append(bytes.Clone(padding), h.id...))
	u := sum[:]
	for i := range 20 {
		u = rc4Crypt(xorKey(key, i), u)
	}
	return bytes.Equal(u, h.user[:16])
}

// userPassword returns the user's password, padded, if password is the
// owner's (algorithm 7); else rubbish.
func (h *handler) userPassword(password []byte) []byte {
	sum := md5.Sum(pad(password))
	key := sum[:]
	if h.revision < 3 {
		return rc4Crypt(key[:h.keyLength], h.owner[:32])
	}
	for range 50 {
		again := md5.Sum(key)
		key = again[:]
	}
	user := h.owner[:32]
	for i := 19; i >= 0; i-- {
		user = rc4Crypt(xorKey(key[:h.keyLength], i), user)
	}
	return user
}

func xorKey(key []byte, with int) []byte {
	out := make([]byte, len(key))
	for i := range key {
		out[i] = key[i] ^ byte(with)
	}
	return out
}
