"""Lists the tools of an MCP endpoint and calls some with Python's SDK 2. Arguments: URL, mode, then the calls as JSON."""

import asyncio
import json
import sys

from mcp import Client


async def main() -> None:
    url, mode, calls = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    async with Client(url, mode=mode) as client:
        tools = await client.list_tools()
        answers = []
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            answers.append("".join(part.text for part in result.content))
        names = [tool.name for tool in tools.tools]
        print(json.dumps({"version": client.protocol_version, "tools": names, "answers": answers}))


asyncio.run(main())
