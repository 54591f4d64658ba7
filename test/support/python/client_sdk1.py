"""The same with the last release of Python's SDK 1, which speaks the handshake alone. Arguments: URL, mode, calls."""

import asyncio
import json
import sys

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client


async def main() -> None:
    url, calls = sys.argv[1], json.loads(sys.argv[3])
    async with streamablehttp_client(url) as (read, write, _), ClientSession(read, write) as session:
        opened = await session.initialize()
        tools = await session.list_tools()
        answers = []
        for name, arguments in calls:
            result = await session.call_tool(name, arguments)
            answers.append("".join(part.text for part in result.content))
        names = [tool.name for tool in tools.tools]
        print(json.dumps({"version": opened.protocolVersion, "tools": names, "answers": answers}))


asyncio.run(main())
