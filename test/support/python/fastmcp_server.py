"""A FastMCP server on loopback. Argument: the port."""

import asyncio
import sys

from fastmcp import Context, FastMCP

server = FastMCP("fast")


@server.tool
def echo(message: str) -> str:
    """Says it again."""
    return f"fast: {message}"


@server.tool
async def steps(count: int, context: Context) -> str:
    """Reports progress."""
    for step in range(count):
        await context.report_progress(step + 1, count)
    return f"{count} steps"


asyncio.run(server.run_http_async(show_banner=False, host="127.0.0.1", port=int(sys.argv[1]), path="/mcp", log_level="error"))
