/** What docs/workflows.md says to configure is valid, and its templates are read. */
import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { templateFunctions } from '../../dataplane/config/workflow/functions.ts'
import { eventually } from '../support/eventually.ts'
import { startGateway } from '../support/gateway/gateway.ts'
import { postModern } from '../support/gateway/post.ts'
import { type RawServer, startRawServer, tool } from '../support/servers/raw-server.ts'

const text = readFileSync(new URL('../../docs/workflows.md', import.meta.url), 'utf8')
const [block = ''] = [...text.matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1] as string)

test('the example is served', async () => {
  const servers: RawServer[] = []
  const started = async (...names: string[]) => {
    const server = await startRawServer({ era: 'both', tools: names.map((name) => tool(name)), call: () => undefined })
    servers.push(server)
    return server.url
  }
  const config = block
    .replace('http://git.example.com/mcp', await started('build', 'changelog', 'publish'))
    .replace('http://chat.example.com/mcp', await started('send'))
  const gateway = await startGateway({ backends: [] })
  try {
    await gateway.configure(config)
    await eventually('its tools', async () => {
      const { json } = await postModern(gateway.url, 'tools/list')
      return json.result?.tools.some(({ name }: { name: string }) => name === 'release')
    })
    assert.equal((await gateway.status()).refused, [])
    await eventually('no problems', async () => ((await gateway.status()) as any).problems.length === 0)
  } finally {
    await gateway.close()
    for (const server of servers) await server.close()
  }
})

test('every function of templates is named', () => {
  for (const name of templateFunctions.keys()) assert.match(text, `\`${name}\``)
})

test.run()
