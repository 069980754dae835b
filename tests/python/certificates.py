"""A certificate authority for tests, with a server and a client certificate."""

import subprocess
from pathlib import Path

EXTENSIONS = {
    "server": "subjectAltName=DNS:redis.test,IP:127.0.0.1",
    "client": "extendedKeyUsage=clientAuth",
}


def make(folder: Path) -> None:
    def openssl(words: str) -> None:
        subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True)

    for ca in ("ca", "other-ca"):
        openssl(f"req -x509 -newkey rsa:2048 -nodes -keyout {ca}.key -out {ca}.crt -subj /CN={ca}")
    for name, extension in EXTENSIONS.items():
        (folder / f"{name}.ext").write_text(extension)
        openssl(f"req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}")
        openssl(
            f"x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial"
            f" -out {name}.crt -extfile {name}.ext"
        )
    # As people make it: of a CA, and without a `subjectAltName`.
    openssl("req -x509 -key server.key -out own.crt -subj /CN=redis")
    openssl("pkcs8 -topk8 -v2 aes-256-cbc -passout pass:s3cret -in client.key -out locked.key")
    (folder / "wide.crt").write_text((folder / "ca.crt").read_text(), encoding="utf-16")
