"""What boto3 does with the object store, as it comes: each check prints one line of JSON. Called by boto3.ts.

usage: checks.py ENDPOINT BUCKET local|sigv4
"""

import base64
import hashlib
import io
import json
import os
import sys
import threading
import urllib.error
import urllib.request
import uuid

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

ENDPOINT, BUCKET, MODE = sys.argv[1:]
MIB = 1 << 20

s3 = boto3.client("s3", endpoint_url=ENDPOINT, config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}))
CHECKS = []


def check(name):
    def add(function):
        CHECKS.append((name, function))
        return function

    return add


def equal(actual, expected):
    if actual != expected:
        raise AssertionError(f"{actual!r} is not {expected!r}"[:400])


def refused(code, status, call, **arguments):
    """The call must be refused in this way."""
    try:
        call(**arguments)
    except ClientError as error:
        equal((error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]), (code, status))
        return error.response
    raise AssertionError(f"not refused: {code} was expected")


def http(method, url, body=None, headers=None):
    request = urllib.request.Request(url, data=body, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read(), response.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers


def put(key, body=b"0123456789", **arguments):
    return s3.put_object(Bucket=BUCKET, Key=key, Body=body, **arguments)


def read(key, **arguments):
    return s3.get_object(Bucket=BUCKET, Key=key, **arguments)["Body"].read()


@check("buckets")
def _():
    s3.create_bucket(Bucket=BUCKET)
    refused("BucketAlreadyOwnedByYou", 409, s3.create_bucket, Bucket=BUCKET)
    equal(s3.head_bucket(Bucket=BUCKET)["ResponseMetadata"]["HTTPStatusCode"], 200)
    equal(s3.get_bucket_location(Bucket=BUCKET)["LocationConstraint"], None)
    assert BUCKET in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    refused("404", 404, s3.head_bucket, Bucket="absent-" + BUCKET)
    refused("NoSuchBucket", 404, s3.list_objects_v2, Bucket="absent-" + BUCKET)
    refused("InvalidBucketName", 400, s3.create_bucket, Bucket="No_Capitals")


@check("put, get, head: content, metadata, headers")
def _():
    body = os.urandom(100_000)
    written = put(
        "a/b c+d/é.bin",
        body,
        Metadata={"colour": "green", "long": "x" * 1000},
        ContentType="text/x-test",
        CacheControl="max-age=5",
        ContentDisposition='attachment; filename="a b"',
        ContentLanguage="de",
        ContentEncoding="identity",
    )
    equal(written["ETag"], f'"{hashlib.md5(body).hexdigest()}"')
    for reply in (s3.get_object(Bucket=BUCKET, Key="a/b c+d/é.bin"), s3.head_object(Bucket=BUCKET, Key="a/b c+d/é.bin")):
        equal(reply["Metadata"], {"colour": "green", "long": "x" * 1000})
        equal(
            [reply[name] for name in ("ContentType", "CacheControl", "ContentDisposition", "ContentLanguage", "ContentEncoding")],
            ["text/x-test", "max-age=5", 'attachment; filename="a b"', "de", "identity"],
        )
        equal((reply["ContentLength"], reply["ETag"]), (len(body), written["ETag"]))
        if "Body" in reply:
            equal(reply["Body"].read(), body)
    put("empty", b"")
    equal(read("empty"), b"")
    refused("NoSuchKey", 404, s3.get_object, Bucket=BUCKET, Key="absent")
    refused("404", 404, s3.head_object, Bucket=BUCKET, Key="absent")


@check("odd keys are kept as they are")
def _():
    keys = ["../up", "a//b", "./dot", "a/../b", "%41", "a?b#c&d=e", "quote\"'<>", "tab\tnew\nline", "日本語", "end/", " space ", "~!*'()"]
    for key in keys:
        put("odd/" + key, key.encode())
    for key in keys:
        equal(read("odd/" + key), key.encode())
    listed = [item["Key"] for item in s3.list_objects_v2(Bucket=BUCKET, Prefix="odd/")["Contents"]]
    equal(listed, sorted(("odd/" + key for key in keys), key=str.encode))


@check("checksums of every algorithm boto3 has")
def _():
    body = os.urandom(30_000)
    for algorithm in ("CRC32", "SHA1", "SHA256"):
        written = put("sum-" + algorithm, body, ChecksumAlgorithm=algorithm)
        member = "Checksum" + algorithm
        equal(s3.get_object(Bucket=BUCKET, Key="sum-" + algorithm, ChecksumMode="ENABLED")[member], written[member])
    put("sum-given", body, ChecksumSHA256=base64.b64encode(hashlib.sha256(body).digest()).decode())
    refused("BadDigest", 400, put, key="sum-wrong", ChecksumSHA256=base64.b64encode(bytes(32)).decode())
    refused("BadDigest", 400, put, key="sum-wrong", ContentMD5=base64.b64encode(bytes(16)).decode())
    refused("NoSuchKey", 404, read, key="sum-wrong")


# Of the digits 1 to 9. boto3 sends what it is given, and computes none of these without the AWS CRT.
GIVEN_SUMS = {
    "ChecksumSHA512": base64.b64encode(hashlib.sha512(b"123456789").digest()).decode(),
    "ChecksumMD5": base64.b64encode(hashlib.md5(b"123456789").digest()).decode(),
    "ChecksumXXHASH64": "jLhB20DmroM=",
    "ChecksumXXHASH3": "ctyxi2ehff8=",
    "ChecksumXXHASH128": "MxGUd+3l3NXpcWQnaB1YYA==",
}


@check("checksums that came to S3 in 2026, where this boto3 knows them")
def _():
    known = s3.meta.service_model.operation_model("PutObject").input_shape.members
    for member, value in GIVEN_SUMS.items():
        if member not in known:
            continue
        equal(put("sum-new", b"123456789", **{member: value})[member], value)
        equal(s3.get_object(Bucket=BUCKET, Key="sum-new", ChecksumMode="ENABLED")[member], value)
        refused("BadDigest", 400, put, key="sum-new", body=b"987654321", **{member: value})


@check("storage classes and the only version")
def _():
    put("class", b"x", StorageClass="STANDARD_IA")
    equal(s3.head_object(Bucket=BUCKET, Key="class")["StorageClass"], "STANDARD_IA")
    equal(s3.list_objects_v2(Bucket=BUCKET, Prefix="class")["Contents"][0]["StorageClass"], "STANDARD_IA")
    refused("InvalidStorageClass", 400, put, key="class", StorageClass="GLACIER")
    equal(s3.get_object(Bucket=BUCKET, Key="class", VersionId="null")["Body"].read(), b"x")


@check("list: pages, prefixes, delimiters, start-after")
def _():
    for number in range(25):
        put(f"list/{number % 5}/{number:02}", b"x")
    paginator = s3.get_paginator("list_objects_v2")
    pages = list(paginator.paginate(Bucket=BUCKET, Prefix="list/", PaginationConfig={"PageSize": 7}))
    equal([page["KeyCount"] for page in pages], [7, 7, 7, 4])
    keys = [item["Key"] for page in pages for item in page["Contents"]]
    equal(keys, sorted(f"list/{number % 5}/{number:02}" for number in range(25)))
    grouped = s3.list_objects_v2(Bucket=BUCKET, Prefix="list/", Delimiter="/", MaxKeys=3)
    equal([item["Prefix"] for item in grouped["CommonPrefixes"]], ["list/0/", "list/1/", "list/2/"])
    rest = s3.list_objects_v2(Bucket=BUCKET, Prefix="list/", Delimiter="/", ContinuationToken=grouped["NextContinuationToken"])
    equal([item["Prefix"] for item in rest["CommonPrefixes"]], ["list/3/", "list/4/"])
    after = s3.list_objects_v2(Bucket=BUCKET, Prefix="list/", StartAfter="list/4/14", FetchOwner=True)["Contents"]
    equal([item["Key"] for item in after], ["list/4/19", "list/4/24"])
    assert after[0]["Owner"]["ID"]


@check("ranges")
def _():
    put("range", b"0123456789")
    for asked, expected in (("bytes=2-4", b"234"), ("bytes=7-", b"789"), ("bytes=-3", b"789"), ("bytes=0-99", b"0123456789")):
        reply = s3.get_object(Bucket=BUCKET, Key="range", Range=asked)
        equal((reply["ResponseMetadata"]["HTTPStatusCode"], reply["Body"].read()), (206, expected))
    equal(s3.get_object(Bucket=BUCKET, Key="range", Range="bytes=2-4")["ContentRange"], "bytes 2-4/10")
    refused("InvalidRange", 416, s3.get_object, Bucket=BUCKET, Key="range", Range="bytes=10-")


@check("multipart: 20 MiB up in 8 MiB parts, down in parts")
def _():
    body = os.urandom(20 * MIB + 7)
    config = TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=8 * MIB)
    seen = []
    lock = threading.Lock()

    def progress(count):
        with lock:
            seen.append(count)

    s3.upload_fileobj(
        io.BytesIO(body), BUCKET, "big", ExtraArgs={"Metadata": {"is": "big"}, "ContentType": "x/y"}, Config=config, Callback=progress
    )
    equal(sum(seen), len(body))
    head = s3.head_object(Bucket=BUCKET, Key="big")
    equal((head["ContentLength"], head["Metadata"], head["ContentType"], head["ETag"][-3:]), (len(body), {"is": "big"}, "x/y", '-3"'))
    part = s3.get_object(Bucket=BUCKET, Key="big", PartNumber=2)
    equal((part["PartsCount"], part["Body"].read()), (3, body[8 * MIB : 16 * MIB]))
    into = io.BytesIO()
    s3.download_fileobj(BUCKET, "big", into, Config=config)
    assert into.getvalue() == body, "what came down is not what went up"


@check("multipart: by hand, listed, completed twice, aborted")
def _():
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="by-hand")["UploadId"]
    name = {"Bucket": BUCKET, "Key": "by-hand", "UploadId": upload}
    body = os.urandom(5 * MIB)
    one = s3.upload_part(**name, PartNumber=1, Body=body)["ETag"]
    put("source", b"from another object")
    two = s3.upload_part_copy(**name, PartNumber=7, CopySource={"Bucket": BUCKET, "Key": "source"}, CopySourceRange="bytes=5-11")
    listed = s3.list_parts(**name)
    equal([(part["PartNumber"], part["Size"]) for part in listed["Parts"]], [(1, 5 * MIB), (7, 7)])
    assert upload in [each["UploadId"] for each in s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]]
    parts = {"Parts": [{"PartNumber": 1, "ETag": one}, {"PartNumber": 7, "ETag": two["CopyPartResult"]["ETag"]}]}
    done = s3.complete_multipart_upload(**name, MultipartUpload=parts)
    equal(s3.complete_multipart_upload(**name, MultipartUpload=parts)["ETag"], done["ETag"])
    equal(read("by-hand"), body + b"another")
    aborted = s3.create_multipart_upload(Bucket=BUCKET, Key="aborted")["UploadId"]
    s3.abort_multipart_upload(Bucket=BUCKET, Key="aborted", UploadId=aborted)
    refused("NoSuchUpload", 404, s3.list_parts, Bucket=BUCKET, Key="aborted", UploadId=aborted)


@check("pre-signed URLs of both versions: put, get, with other headers")
def _():
    for version in ("s3", "s3v4"):
        signer = boto3.client("s3", endpoint_url=ENDPOINT, config=Config(signature_version=version, s3={"addressing_style": "path"}))
        url = signer.generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": "by url é"})
        # Without it urllib sends a type of its own, which version 2 has to be told of.
        equal(http("PUT", url, b"by url", {"Content-Type": ""})[0], 200)
        url = signer.generate_presigned_url(
            "get_object", Params={"Bucket": BUCKET, "Key": "by url é", "ResponseContentType": "text/x-other"}
        )
        status, body, headers = http("GET", url)
        equal((status, body, headers["content-type"]), (200, b"by url", "text/x-other"))
        s3.delete_object(Bucket=BUCKET, Key="by url é")


@check("tags")
def _():
    put("tagged", Tagging="one=1&two=zwei")
    expected = [{"Key": "one", "Value": "1"}, {"Key": "two", "Value": "zwei"}]
    equal(s3.get_object_tagging(Bucket=BUCKET, Key="tagged")["TagSet"], expected)
    equal(s3.head_object(Bucket=BUCKET, Key="tagged")["ResponseMetadata"]["HTTPHeaders"]["x-amz-tagging-count"], "2")
    s3.put_object_tagging(Bucket=BUCKET, Key="tagged", Tagging={"TagSet": [{"Key": "other", "Value": ""}]})
    equal(s3.get_object_tagging(Bucket=BUCKET, Key="tagged")["TagSet"], [{"Key": "other", "Value": ""}])
    s3.delete_object_tagging(Bucket=BUCKET, Key="tagged")
    equal(s3.get_object_tagging(Bucket=BUCKET, Key="tagged")["TagSet"], [])
    many = {"TagSet": [{"Key": str(number), "Value": ""} for number in range(11)]}
    refused("InvalidTag", 400, s3.put_object_tagging, Bucket=BUCKET, Key="tagged", Tagging=many)


@check("CORS")
def _():
    refused("NoSuchCORSConfiguration", 404, s3.get_bucket_cors, Bucket=BUCKET)
    rules = [{"ID": "r", "AllowedMethods": ["GET", "PUT"], "AllowedOrigins": ["https://*.example"], "AllowedHeaders": ["*"], "MaxAgeSeconds": 60}]
    s3.put_bucket_cors(Bucket=BUCKET, CORSConfiguration={"CORSRules": rules})
    equal(s3.get_bucket_cors(Bucket=BUCKET)["CORSRules"], rules)
    ask = {"Origin": "https://a.example", "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "X-Test"}
    status, _, headers = http("OPTIONS", f"{ENDPOINT}/{BUCKET}/any", headers=ask)
    equal((status, headers["access-control-allow-origin"], headers["access-control-allow-headers"]), (200, "https://a.example", "x-test"))
    equal(http("OPTIONS", f"{ENDPOINT}/{BUCKET}/any", headers={**ask, "Origin": "https://evil"})[0], 403)
    s3.delete_bucket_cors(Bucket=BUCKET)
    refused("NoSuchCORSConfiguration", 404, s3.get_bucket_cors, Bucket=BUCKET)


@check("policy")
def _():
    refused("NoSuchBucketPolicy", 404, s3.get_bucket_policy, Bucket=BUCKET)
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{BUCKET}/public/*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    s3.put_bucket_policy(Bucket=BUCKET, Policy=policy)
    equal(s3.get_bucket_policy(Bucket=BUCKET)["Policy"], policy)
    put("public/page", b"for all")
    equal(http("GET", f"{ENDPOINT}/{BUCKET}/public/page")[:2], (200, b"for all"))
    s3.delete_bucket_policy(Bucket=BUCKET)
    refused("MalformedPolicy", 400, s3.put_bucket_policy, Bucket=BUCKET, Policy="[]")


@check("copy: keeps or replaces metadata")
def _():
    put("copied from +é", b"copied", Metadata={"kept": "yes"}, ContentType="a/b", Tagging="t=1")
    source = {"Bucket": BUCKET, "Key": "copied from +é"}
    s3.copy_object(Bucket=BUCKET, Key="copy", CopySource=source)
    reply = s3.get_object(Bucket=BUCKET, Key="copy")
    equal((reply["Body"].read(), reply["Metadata"], reply["ContentType"]), (b"copied", {"kept": "yes"}, "a/b"))
    equal(s3.get_object_tagging(Bucket=BUCKET, Key="copy")["TagSet"], [{"Key": "t", "Value": "1"}])
    s3.copy_object(Bucket=BUCKET, Key="copy", CopySource=source, MetadataDirective="REPLACE", Metadata={"new": "1"}, ContentType="c/d")
    reply = s3.head_object(Bucket=BUCKET, Key="copy")
    equal((reply["Metadata"], reply["ContentType"]), ({"new": "1"}, "c/d"))
    refused("InvalidRequest", 400, s3.copy_object, Bucket=BUCKET, Key="copy", CopySource={"Bucket": BUCKET, "Key": "copy"})
    refused("NoSuchKey", 404, s3.copy_object, Bucket=BUCKET, Key="copy", CopySource={"Bucket": BUCKET, "Key": "absent"})
    s3.copy({"Bucket": BUCKET, "Key": "big"}, BUCKET, "big copy", Config=TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=8 * MIB))
    equal(s3.head_object(Bucket=BUCKET, Key="big copy")["ContentLength"], 20 * MIB + 7)


@check("conditional reads and writes")
def _():
    etag = put("condition", b"one", IfNoneMatch="*")["ETag"]
    refused("PreconditionFailed", 412, put, key="condition", body=b"two", IfNoneMatch="*")
    refused("PreconditionFailed", 412, put, key="condition", body=b"two", IfMatch='"0"')
    put("condition", b"two", IfMatch=etag)
    equal(read("condition"), b"two")
    refused("PreconditionFailed", 412, s3.get_object, Bucket=BUCKET, Key="condition", IfMatch=etag)
    now = s3.head_object(Bucket=BUCKET, Key="condition")
    refused("304", 304, s3.get_object, Bucket=BUCKET, Key="condition", IfNoneMatch=now["ETag"])
    refused("304", 304, s3.get_object, Bucket=BUCKET, Key="condition", IfModifiedSince=now["LastModified"])
    refused("PreconditionFailed", 412, s3.delete_object, Bucket=BUCKET, Key="condition", IfMatch=etag)


@check("a customer's key (SSE-C)")
def _():
    key = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32}
    put("secret", b"secret", **key)
    equal(read("secret", **key), b"secret")
    refused("InvalidRequest", 400, read, key="secret")
    refused("AccessDenied", 403, read, key="secret", SSECustomerAlgorithm="AES256", SSECustomerKey="l" * 32)


@check("a browser's POST form")
def _():
    form = s3.generate_presigned_post(
        BUCKET,
        "posted/${filename}",
        Fields={"x-amz-meta-by": "form", "success_action_status": "201"},
        Conditions=[{"x-amz-meta-by": "form"}, {"success_action_status": "201"}, ["content-length-range", 1, 100]],
    )

    def post(fields, content):
        boundary = uuid.uuid4().hex
        parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()]
        head = "".join(parts) + f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="f.txt"\r\n\r\n'
        body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        return http("POST", form["url"], body, {"Content-Type": f"multipart/form-data; boundary={boundary}"})

    status, answer, _ = post(form["fields"], b"from a browser")
    assert status == 201 and b"<Key>posted/f.txt</Key>" in answer, (status, answer)
    reply = s3.get_object(Bucket=BUCKET, Key="posted/f.txt")
    equal((reply["Body"].read(), reply["Metadata"]), (b"from a browser", {"by": "form"}))
    equal(post(form["fields"], b"x" * 101)[0], 400)
    equal(post({**form["fields"], "x-amz-meta-by": "another"}, b"x")[0], 403)


@check("signatures: who is not known, or signs wrongly, is refused")
def _():
    if MODE == "local":
        return
    equal(http("GET", f"{ENDPOINT}/{BUCKET}/range")[0], 403)
    url = s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "range"})
    status, answer, _ = http("GET", url.replace("/range?", "/big?"))
    assert status == 403 and b"<Code>SignatureDoesNotMatch</Code>" in answer, (status, answer)
    other = {"endpoint_url": ENDPOINT, "config": Config(s3={"addressing_style": "path"})}
    stranger = boto3.client("s3", aws_access_key_id="AKIASTRANGER", aws_secret_access_key="s", **other)
    refused("InvalidAccessKeyId", 403, stranger.list_buckets)
    forger = boto3.client("s3", aws_access_key_id=os.environ["AWS_ACCESS_KEY_ID"], aws_secret_access_key="s", **other)
    refused("SignatureDoesNotMatch", 403, forger.list_buckets)


@check("delete, delete many, delete the bucket")
def _():
    refused("BucketNotEmpty", 409, s3.delete_bucket, Bucket=BUCKET)
    s3.delete_object(Bucket=BUCKET, Key="empty")
    refused("NoSuchKey", 404, read, key="empty")
    s3.delete_object(Bucket=BUCKET, Key="never was")
    keys = [item["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET) for item in page["Contents"]]
    reply = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in keys]})
    equal((sorted(item["Key"] for item in reply["Deleted"]), reply.get("Errors")), (sorted(keys), None))
    equal(s3.list_objects_v2(Bucket=BUCKET)["KeyCount"], 0)
    s3.delete_bucket(Bucket=BUCKET)
    refused("404", 404, s3.head_bucket, Bucket=BUCKET)


for name, function in CHECKS:
    try:
        function()
        print(json.dumps({"check": name, "problem": None}), flush=True)
    except Exception as error:
        print(json.dumps({"check": name, "problem": f"{type(error).__name__}: {error}"}), flush=True)
