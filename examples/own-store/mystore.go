// A store for blobwise: one file per blob, over HTTP. With -null it keeps lengths only, to show what the protocol costs.
package main

import (
	"bytes"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

var (
	dir    = flag.String("dir", ".", "directory of the files")
	socket = flag.String("socket", "", "Unix socket to listen on")
	null   = flag.Bool("null", false, "keep lengths only")
	sizes  sync.Map
)

func get(w http.ResponseWriter, r *http.Request, path string) {
	if size, found := sizes.Load(path); found {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(make([]byte, size.(int))))
	} else if file, err := os.Open(path); err == nil {
		defer file.Close()
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", time.Time{}, file)
	} else if os.IsNotExist(err) {
		w.WriteHeader(http.StatusNotFound)
	} else {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func put(w http.ResponseWriter, r *http.Request, path string) {
	blob, err := io.ReadAll(r.Body)
	if err == nil && *null {
		sizes.Store(path, len(blob))
	} else if err == nil {
		var draft *os.File
		if draft, err = os.CreateTemp(*dir, "draft-*"); err == nil {
			_, err = draft.Write(blob)
			draft.Close()
		}
		if err == nil {
			err = os.Rename(draft.Name(), path)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func main() {
	flag.Parse()
	listener, err := net.Listen("unix", *socket)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := filepath.Join(*dir, filepath.Base(r.URL.Path))
		switch r.Method {
		case "GET", "HEAD":
			get(w, r, path)
		case "PUT":
			put(w, r, path)
		case "DELETE":
			sizes.Delete(path)
			if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}
	})))
}
