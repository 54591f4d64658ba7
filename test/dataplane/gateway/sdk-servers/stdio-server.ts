/** Runs one of the servers on stdio: `v1`, `v2` (both eras) or `v2-stateless`. */
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { buildV1, growV1 } from './v1-server.ts'
import { buildV2, growV2 } from './v2-server.ts'
import type { World } from './world.ts'

const shape = process.argv[2]
const world: World = { grown: false, began: 0, cancelled: 0, grow() {}, touch() {} }

if (shape === 'v1') {
  const server = buildV1(world)
  world.grow = () => growV1(server)
  world.touch = () => server.server.sendResourceUpdated({ uri: 'test://fixed' }).catch(() => {})
  await server.connect(new StdioServerTransport())
} else
  serveStdio(
    () => {
      const server = buildV2(world)
      world.grow = () => growV2(server)
      world.touch = () => server.server.sendResourceUpdated({ uri: 'test://fixed' }).catch(() => {})
      return server
    },
    { legacy: shape === 'v2-stateless' ? 'reject' : 'serve' },
  )
