"""Keys of elliptic curves for tests, made anew for each."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

_PEM = serialization.Encoding.PEM


def make(folder: Path, name: str = "key", password: str = "") -> tuple[Path, Path]:
    """A private and a public key in a folder, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    lock: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        lock = serialization.BestAvailableEncryption(password.encode())
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, lock))
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(_PEM, form))
    return private, public
