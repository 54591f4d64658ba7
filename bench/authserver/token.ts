/**
 * Measures the exchange of a refresh token, in memory and with Redis. Client and gateway share one process, so the time
 * includes the client's. Usage: token.ts [exchanges]
 */
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import type { AuthServerConfig } from '../../dataplane/config/auth-server.ts'
import { startAuthServer, TestClient, type Tokens } from '../../test/support/identity/auth-server.ts'
import { startRedis } from '../../test/support/network/redis-server.ts'

const EXCHANGES = Number(process.argv[2] ?? 3_000)
/** Until V8 has compiled the hot path. */
const WARM_UP = Math.min(2_000, EXCHANGES)
const TARGET_MS = 2

const agent = new Agent({ keepAlive: true })

/** The cheapest client, so that little of the time is its own. */
function post(url: string, fields: Record<string, string>): Promise<Tokens> {
  return new Promise((resolve, reject) => {
    const body = new URLSearchParams(fields).toString()
    const headers = { 'content-type': 'application/x-www-form-urlencoded', 'content-length': Buffer.byteLength(body) }
    const sent = request(url, { method: 'POST', agent, headers }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
      response.on('end', () =>
        response.statusCode === 200 ? resolve(JSON.parse(text) as Tokens) : reject(new Error(text)),
      )
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

async function measure(name: string, storage: NonNullable<AuthServerConfig['storage']>): Promise<number> {
  const server = await startAuthServer({
    authServer: { hmacSecretFiles: ['hmac'], storage },
    prepare: (directory) => writeFile(join(directory, 'hmac'), randomBytes(32).toString('base64url')),
  })
  try {
    const client = await TestClient.register(server.issuer)
    let { refresh_token: token } = await client.login()
    const times: number[] = []
    for (let left = WARM_UP + EXCHANGES; left > 0; left--) {
      const began = performance.now()
      const answer = await post(`${server.issuer}/oauth/token`, {
        grant_type: 'refresh_token',
        refresh_token: token,
        client_id: client.id,
      })
      times.push(performance.now() - began)
      token = answer.refresh_token
    }
    const sorted = times.slice(WARM_UP).sort((a, b) => a - b)
    const percentile = (part: number) => sorted[Math.floor((sorted.length - 1) * part)] as number
    console.log(`${name.padEnd(9)} p50 ${percentile(0.5).toFixed(2)} ms, p99 ${percentile(0.99).toFixed(2)} ms`)
    return percentile(0.5)
  } finally {
    await server.close()
  }
}

const inMemory = await measure('in memory', { type: 'memory' })
const redis = await startRedis()
try {
  await measure('in Redis', { type: 'redis', redis: { addresses: [redis.address] } })
} finally {
  await redis.stop()
}
console.log(`to reach in memory: ${TARGET_MS} ms`)
process.exit(inMemory < TARGET_MS ? 0 : 1)
