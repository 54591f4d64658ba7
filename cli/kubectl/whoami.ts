import { decodeJwt } from 'jose'
import type { Command, Io } from '../command.ts'
import { clusterOptions, inCluster, readWorkload, WORKLOAD } from './cluster.ts'
import { callerOptions, type Endpoint, formatRefusal, readToken, withEndpoint } from './endpoint.ts'
import { listTools } from './tools.ts'
import { printable } from './tree.ts'

/** Returns the claims in a JWT, unverified; undefined for an opaque token. */
function decodeClaims(token: string): Record<string, unknown> | undefined {
  try {
    return decodeJwt(token)
  } catch {
    return undefined
  }
}

/** Shows the caller's identity at a gateway or proxy: it verifies the token, which holds the identity. */
async function printGatewayIdentity(endpoint: Endpoint, token: string | undefined, io: Io): Promise<number> {
  const tools = await listTools(endpoint)
  const claims = token === undefined ? undefined : decodeClaims(token)
  io.out(`${token === undefined ? 'anonymous' : 'the token is accepted'}; ${tools.length} tools are shown\n`)
  for (const [name, value] of Object.entries(claims ?? {}))
    io.out(`  ${printable(name)}: ${printable(JSON.stringify(value))}\n`)
  return 0
}

async function printRegistryIdentity(endpoint: Endpoint, io: Io): Promise<number> {
  const answer = await endpoint.get('/v1/me')
  if (answer.status !== 200) throw new Error(printable(formatRefusal(answer)))
  const { subject, roles } = JSON.parse(answer.text) as Record<string, unknown>
  io.out(`${printable(String(subject))}\n`)
  for (const role of Array.isArray(roles) ? roles : []) io.out(`  role: ${printable(String(role))}\n`)
  return 0
}

export const command: Command = {
  name: 'whoami',
  synopsis: `${WORKLOAD} [options]`,
  about: `Says whether a workload accepts a caller’s token, and how it sees the caller: claims and the number of tools at a
gateway, subject and roles at a registry. Exits 1 if it refuses the caller.`,
  options: { ...clusterOptions, ...callerOptions },
  run: (given, io) =>
    inCluster(given, io, async (cluster) => {
      const workload = await readWorkload(given, cluster)
      const token = readToken(given, io)
      return withEndpoint({ workload, token }, cluster, io, (endpoint) =>
        workload.kind === 'MCPRegistry'
          ? printRegistryIdentity(endpoint, io)
          : printGatewayIdentity(endpoint, token, io),
      )
    }),
}
