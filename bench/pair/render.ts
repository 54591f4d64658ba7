import { spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Comparison, type Measure } from './turns.ts'

const PROXIES = 2_000
const ROUNDS = 5
const TURNS = 2

/** Compares the wall time of `portico render` of two checkouts on a large set of manifests. */
export async function compareRender(roots: { readonly before: string; readonly after: string }): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-pair-'))
  try {
    await writeFile(join(directory, 'set.yaml'), manifests())
    const buildMeasure = (root: string): Measure => {
      return async () => {
        const began = performance.now()
        const { status, stderr } = spawnSync(join(root, 'bin/portico'), ['render', directory], {
          stdio: ['ignore', 'ignore', 'pipe'],
          encoding: 'utf8',
        })
        if (status !== 0) throw new Error(`render failed: ${stderr}`)
        return { total: performance.now() - began }
      }
    }
    const comparison = new Comparison('ms')
    // Each measurement is a process of its own.
    const pair = { before: buildMeasure(roots.before), after: buildMeasure(roots.after) }
    for (let round = 0; round < ROUNDS; round++)
      await comparison.measure(`render: ${PROXIES} proxies, 20 gateways`, TURNS, pair)
    comparison.print()
  } finally {
    await rm(directory, { recursive: true })
  }
}

function manifests(): string {
  const buildObject = (kind: string, name: string, spec: object) => ({
    apiVersion: 'portico.dev/v1beta1',
    kind,
    metadata: { name, namespace: 'default' },
    spec,
  })
  const objects: object[] = [buildObject('MCPTelemetryConfig', 'traces', { openTelemetry: {} })]
  for (let group = 0; group < 20; group++) {
    objects.push(
      buildObject('MCPGroup', `group-${group}`, {}),
      buildObject('VirtualMCPServer', `gateway-${group}`, {
        groupRef: { name: `group-${group}` },
        incomingAuth: { type: 'anonymous' },
      }),
    )
  }
  for (let proxy = 0; proxy < PROXIES; proxy++)
    objects.push(
      buildObject('MCPRemoteProxy', `proxy-${proxy}`, {
        remoteUrl: `https://server-${proxy}.example.com/mcp`,
        groupRef: { name: `group-${proxy % 20}` },
      }),
    )
  return objects.map((object) => JSON.stringify(object)).join('\n---\n')
}
