/** A program with the SDK's server on standard input and output, which speaks the era of the first message. */
import { McpServer } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { z } from 'zod'

const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] })

serveStdio(() => {
  const server = new McpServer({ name: 'stdio', version: '1.0.0' }, { capabilities: { tools: { listChanged: true } } })
  server.registerTool('echo', { inputSchema: z.object({ message: z.string() }) }, async ({ message }) =>
    text(`stdio: ${message}`),
  )
  server.registerTool('steps', { inputSchema: z.object({ count: z.number() }) }, async ({ count }, context) => {
    const token = context.mcpReq._meta?.progressToken
    for (let step = 1; step <= count && token !== undefined; step++)
      await context.mcpReq.notify({
        method: 'notifications/progress',
        params: { progressToken: token, progress: step, total: count },
      })
    return text(`${count} steps`)
  })
  server.registerTool('grow', {}, async () => {
    server.registerTool('grown', {}, async () => text('grown'))
    return text('grown')
  })
  return server
})
