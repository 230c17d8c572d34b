"""Google's own test server of Cloud Storage (googleapis/storage-testbench), on a free port of this machine, with what
its XML API lacks and obstore asks for: listings, deletions, and the tags of objects. Conditions on writes are its own.

Runs in an environment of its own, which has the testbench.
"""

# mypy: ignore-errors

from email import message_from_bytes
from urllib.parse import quote
from xml.sax.saxutils import escape

import flask
import testbench
import waitress
from testbench.rest_server import db, gcs, objects_copy, root, upload

PAGE, BOUNDARY = "1000", "part"


@root.route("/<bucket>", subdomain="")
def listing(bucket):
    asked = flask.request.args
    after = max(asked.get("start-after", ""), asked.get("continuation-token", ""))
    most = int(asked.get("max-keys", PAGE))
    objects, folders = db.list_object(flask.request, bucket, None)
    found = {one.name: _object(one) for one in objects} | {name: _folder(name) for name in folders}
    names = sorted(name for name in found if name > after)
    body = "".join(found[name] for name in names[:most])
    if len(names) > most:
        body += f"<NextContinuationToken>{escape(names[most - 1])}</NextContinuationToken>"
    return flask.Response(f"<ListBucketResult>{body}</ListBucketResult>", content_type="application/xml")


def _object(one):
    named = f"<Key>{escape(one.name)}</Key><Size>{one.size}</Size><ETag>{one.generation}</ETag>"
    return f"<Contents>{named}<LastModified>{one.update_time.ToDatetime().isoformat()}Z</LastModified></Contents>"


def _folder(name):
    return f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"


@root.route("/<bucket>/<path:name>", subdomain="", methods=["DELETE"])
def delete(bucket, name):
    db.delete_object(bucket, name, context=None)
    return flask.Response(status=204)


@root.after_request
def tagged(response):
    bucket, _, name = flask.request.path.lstrip("/").partition("/")
    if name and flask.request.method in ("GET", "HEAD", "PUT") and response.status_code < 300:
        found = db.get_object(bucket, name, context=None).metadata
        response.headers["ETag"] = str(found.generation)
        response.last_modified = found.update_time.ToDatetime()
    return response


@upload.after_request
def addressed(response):
    """The address of an upload names its object, so that a gate knows what is written."""
    name = flask.request.args.get("name")
    if name and "Location" in response.headers:
        response.headers["Location"] += f"&name={quote(name)}"
    return response


def moved(bucket_name, src_object_name, dst_object_name):
    """As the testbench moves, but the conditions on the new object do not count for the old one."""
    answer = objects_copy(bucket_name, src_object_name, bucket_name, dst_object_name)
    db.delete_object(bucket_name, src_object_name, context=None)
    return answer


gcs.view_functions["objects_move"] = moved


@root.route("/token", methods=["POST"])
def token():
    return {"access_token": "none", "token_type": "Bearer", "expires_in": 3600}


@root.route("/batch/storage/v1", methods=["POST"])
def batch():
    """Each part of the request is a request, and each part of the answer an answer."""
    sent = flask.request
    parts = message_from_bytes(f"Content-Type: {sent.content_type}\n\n".encode() + sent.get_data()).get_payload()
    body = "".join(f"--{BOUNDARY}\r\n{_answer(part)}\r\n" for part in parts) + f"--{BOUNDARY}--\r\n"
    return flask.Response(body, content_type=f"multipart/mixed; boundary={BOUNDARY}")


def _answer(part):
    head, _, body = part.get_payload().replace("\r\n", "\n").partition("\n\n")
    request, *headers = head.splitlines()
    method, address, _ = request.split()
    told = dict(header.split(": ", 1) for header in headers)
    found = testbench.run().test_client().open(address, method=method, headers=told, data=body)
    named = f"Content-Type: application/http\r\nContent-ID: response-{part['Content-ID']}\r\n\r\n"
    said = f"HTTP/1.1 {found.status}\r\nContent-Type: {found.content_type}\r\nContent-Length: {found.content_length}"
    return f"{named}{said}\r\n\r\n{found.get_data(as_text=True)}"


def by_its_name(application):
    """Hadoop's connector asks by TLS, for the service's own name, and puts a slash too much before ``batch``."""

    def asked(environ, start):
        if environ["HTTP_HOST"].startswith("storage.googleapis.com"):
            environ["wsgi.url_scheme"] = "https"
        environ["PATH_INFO"] = environ["PATH_INFO"].replace("//batch", "/batch")
        return application(environ, start)

    return asked


if __name__ == "__main__":
    server = waitress.create_server(by_its_name(testbench.run()), host="127.0.0.1", port=0, threads=16)
    print(f"listens on http://127.0.0.1:{server.effective_port}", flush=True)
    server.run()
