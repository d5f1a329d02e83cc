"""Permissions to run commands and to open URLs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from io_ark.errors import NetworkRefusedError, PipesRefusedError

NO_PIPES_VARIABLE = "IO_ARK_NO_PIPES"
NO_NETWORK_VARIABLE = "IO_ARK_NO_NETWORK"
SCHEMES_VARIABLE = "IO_ARK_SCHEMES"
PRIVATE_VARIABLE = "IO_ARK_PRIVATE_HOSTS"

SCHEMES = ("http", "https", "s3", "gs", "hf")


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")


class Access(NamedTuple):
    """Permissions to open files, commands and URLs. Variables of the environment change them: see the methods."""

    pipes: bool = True  # commands
    network: bool = True  # URLs of the schemes http, https, s3, gs and hf, and of those in `IO_ARK_SCHEMES`
    # URLs of http and https at addresses of a private network or of this machine, which are checked when they are
    # connected to. `IO_ARK_PRIVATE_HOSTS` allows them in script files, too.
    private: bool = True

    def of_script(self) -> Access:
        """Return the permissions of names in a script file, which may be a stranger's: no private addresses."""
        return Access(self.pipes, self.network, private=False)

    def check_command(self, command: str) -> None:
        """Raise :class:`PipesRefusedError` if commands are disabled, here or by ``IO_ARK_NO_PIPES``."""
        if not self.pipes or _is_set(NO_PIPES_VARIABLE):
            why = f"{NO_PIPES_VARIABLE} is set in the environment" if self.pipes else "pipes are disabled (pipes=False)"
            raise PipesRefusedError(f"the command {command.strip()!r} is not run: {why}")

    def check_url(self, url: str) -> None:
        """Raise :class:`NetworkRefusedError` if the network is disabled, or this URL is not allowed.

        ``IO_ARK_NO_NETWORK`` disables it, ``IO_ARK_SCHEMES`` allows more schemes, separated by commas.
        """
        if not self.network or _is_set(NO_NETWORK_VARIABLE):
            why = (
                f"{NO_NETWORK_VARIABLE} is set in the environment" if self.network else "it is disabled (network=False)"
            )
            raise NetworkRefusedError(f"the network is not used: {why}", file=url)
        scheme = url.partition("://")[0].lower()
        if scheme not in (*SCHEMES, *os.environ.get(SCHEMES_VARIABLE, "").lower().split(",")):
            raise NetworkRefusedError(
                f"URLs of the scheme {scheme!r} are not opened: {', '.join(SCHEMES)} are, and those that you list in "
                f"{SCHEMES_VARIABLE} in the environment",
                file=url,
            )
        if "::" in url:
            raise NetworkRefusedError(
                "a chain of URLs (::) is not opened: use a pipe such as 'curl -s URL |'", file=url
            )


def is_public(address: str) -> bool:
    """Return True for the address of a public host, and False for one of a private network or of this machine.

    >>> is_public("8.8.8.8"), is_public("10.0.0.1"), is_public("::1"), is_public("64:ff9b::127.0.0.1")
    (True, False, False, False)
    """
    import ipaddress  # which would delay every program

    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False  # a spelling that is not canonical, such as 127.1
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.sixtofour or (found in ipaddress.ip_network("64:ff9b::/96") and int(found) & 0xFFFFFFFF)
        if inner:  # an address of IPv4 behind a gateway
            return is_public(str(ipaddress.IPv4Address(inner)))
        if found.is_reserved or found.is_site_local:
            return False
    return found.is_global and not found.is_multicast


def refuse_private(host: str, addresses: Iterable[str]) -> None:
    """Raise :class:`NetworkRefusedError` if one of a host's addresses is private, and these are refused."""
    if not (_is_set(PRIVATE_VARIABLE) or all(map(is_public, addresses))):
        raise NetworkRefusedError(
            f"{host} is an address of a private network or of this machine, which names in script files do not open: "
            f"set {PRIVATE_VARIABLE}=1 in the environment if you trust them"
        )
