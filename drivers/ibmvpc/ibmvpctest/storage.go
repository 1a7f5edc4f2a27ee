package ibmvpctest

import (
	"crypto/md5" //nolint:gosec // of S3
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// upload is an upload in parts.
type upload struct {
	key   string
	parts map[int][]byte
}

func storageFault(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, xml.Header+"<Error><Code>"+code+"</Code><Message>"+code+"</Message><RequestId>r</RequestId></Error>")
}

func storageAnswer(w http.ResponseWriter, name string, body any) {
	w.Header().Set("Content-Type", "application/xml")
	_, _ = io.WriteString(w, xml.Header)
	_ = xml.NewEncoder(w).EncodeElement(body, xml.StartElement{Name: xml.Name{Local: name}})
}

// serveStorage serves the part of the S3 API that npctl uses.
func (s *Server) serveStorage(w http.ResponseWriter, r *http.Request) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/cos/"), "/")
	content, err := io.ReadAll(r.Body)
	if err != nil {
		storageFault(w, http.StatusBadRequest, "IncompleteBody")
		return
	}
	query := r.URL.Query()
	names := slices.Sorted(maps.Keys(query))
	switch call := r.Method + " " + strings.Join(names, ","); {
	case bucket != Bucket:
		storageFault(w, http.StatusNotFound, "NoSuchBucket")
	case key == "":
		s.listStorage(w, call, query)
	case call == "PUT ":
		s.objects[key] = content
	case call == "DELETE ":
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case call == "POST uploads":
		s.numbers++
		id := "upload-" + strconv.Itoa(s.numbers)
		s.uploads[id] = &upload{key: key, parts: map[int][]byte{}}
		storageAnswer(w, "InitiateMultipartUploadResult", struct{ Bucket, Key, UploadId string }{bucket, key, id}) //nolint:revive // of S3
	default:
		s.serveUpload(w, r, call, key, content)
	}
}

func (s *Server) serveUpload(w http.ResponseWriter, r *http.Request, call, key string, content []byte) {
	query := r.URL.Query()
	id := query.Get("uploadId")
	u := s.uploads[id]
	sum := md5.Sum(content) //nolint:gosec // of S3
	switch {
	case u == nil || u.key != key:
		storageFault(w, http.StatusNotFound, "NoSuchUpload")
	case call == "PUT partNumber,uploadId":
		number, err := strconv.Atoi(query.Get("partNumber"))
		if err != nil || number < 1 || number > 10000 || r.Header.Get("Content-Md5") != base64.StdEncoding.EncodeToString(sum[:]) {
			storageFault(w, http.StatusBadRequest, "BadDigest")
			return
		}
		u.parts[number] = content
		w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
	case call == "POST uploadId":
		s.completeUpload(w, id, content)
	case call == "DELETE uploadId":
		delete(s.uploads, id)
		w.WriteHeader(http.StatusNoContent)
	default:
		storageFault(w, http.StatusBadRequest, "InvalidArgument")
	}
}

func (s *Server) completeUpload(w http.ResponseWriter, id string, content []byte) {
	var in struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	u := s.uploads[id]
	if xml.Unmarshal(content, &in) != nil || len(in.Part) != len(u.parts) || len(in.Part) == 0 {
		storageFault(w, http.StatusBadRequest, "MalformedXML")
		return
	}
	var whole []byte
	for i, p := range in.Part {
		sum := md5.Sum(u.parts[p.PartNumber]) //nolint:gosec // of S3
		if p.PartNumber != i+1 || p.ETag != `"`+hex.EncodeToString(sum[:])+`"` {
			storageFault(w, http.StatusBadRequest, "InvalidPart")
			return
		}
		whole = append(whole, u.parts[p.PartNumber]...)
	}
	s.objects[u.key] = whole
	delete(s.uploads, id)
	storageAnswer(w, "CompleteMultipartUploadResult", struct{ Key string }{u.key})
}

// listStorage lists objects in pages, or uploads.
func (s *Server) listStorage(w http.ResponseWriter, call string, query url.Values) {
	type entry struct {
		Key      string
		Size     int
		UploadId string `xml:",omitempty"` //nolint:revive // of S3
	}
	var entries []entry
	prefix := query.Get("prefix")
	switch call {
	case "GET list-type,prefix", "GET continuation-token,list-type,prefix":
		for _, key := range slices.Sorted(maps.Keys(s.objects)) {
			if strings.HasPrefix(key, prefix) && key > query.Get("continuation-token") {
				entries = append(entries, entry{Key: key, Size: len(s.objects[key])})
			}
		}
		next := ""
		if len(entries) > s.PageSize {
			entries, next = entries[:s.PageSize], entries[s.PageSize-1].Key
		}
		storageAnswer(w, "ListBucketResult", struct {
			Contents              []entry
			NextContinuationToken string `xml:",omitempty"`
		}{entries, next})
	case "GET prefix,uploads":
		for id, u := range s.uploads {
			if strings.HasPrefix(u.key, prefix) {
				entries = append(entries, entry{Key: u.key, UploadId: id})
			}
		}
		storageAnswer(w, "ListMultipartUploadsResult", struct{ Upload []entry }{entries})
	default:
		storageFault(w, http.StatusBadRequest, "InvalidArgument")
	}
}
