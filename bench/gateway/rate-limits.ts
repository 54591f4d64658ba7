/**
 * Compares calls under four rate limits that never refuse (shared, per user, per tool, per tool and user), in memory
 * and in Redis, with calls without any. Redis counts its own commands: one per call. Usage: rate-limits.ts [seconds a
 * measurement]
 */

import type { Redis } from 'ioredis'
import pino from 'pino'
import { Limits, RedisBuckets } from '../../dataplane/gateway/rate-limits/rate-limits.ts'
import { connectRedis, PromptRedis, redisKeyPrefix } from '../../dataplane/storage/redis.ts'
import { openRedis } from '../../test/support/network/open-clients.ts'
import { type RedisServer, startRedis } from '../../test/support/network/redis-server.ts'
import { median } from '../percentile.ts'
import { type Bench, runBench } from '../shipped/bench.ts'
import type { Gateway } from '../shipped/gateway.ts'
import { cpuSeconds } from '../shipped/process.ts'
import { load } from './load.ts'
import { type Part, start } from './parts.ts'
import { toolCall } from './requests.ts'

const TURNS = Number(process.argv[2] ?? 5)
const WARM_UP = { workers: 8, seconds: 30, each: TURNS > 1 ? 4_000 : 100 }
const local = (script: string) => new URL(script, import.meta.url)
const bucket = { maxTokens: 2_000_000_000, refillPeriod: '1s' }
const rateLimiting = {
  shared: bucket,
  perUser: bucket,
  tools: Array.from({ length: 20 }, (_, tool) => ({ name: `b_tool_${tool}`, shared: bucket, perUser: bucket })),
}

interface Measured {
  readonly name: string
  readonly gateway: Gateway
  requests: number
  cpu: number
  /** The times of sequential calls, in milliseconds. */
  readonly alone: number[]
}

async function startGateway(bench: Bench, backend: Part, name: string, more: object): Promise<Measured> {
  const gateway = await bench.gateway({ ...more, backends: [{ name: 'b', url: `${backend.origin}/mcp` }] })
  return { name, gateway, requests: 0, cpu: 0, alone: [] }
}

const request = (worker: number, count: number) => toolCall('modern', undefined, `b_tool_${count % 20}`, worker, count)

async function runTurn(one: Measured): Promise<void> {
  const { origin } = one.gateway
  const before = cpuSeconds(one.gateway)
  const { requests } = await load({ origin, workers: 8, seconds: 1, request })
  one.cpu += cpuSeconds(one.gateway) - before
  one.requests += requests
  one.alone.push(...(await load({ origin, workers: 1, seconds: 0.5, request })).latencies)
}

/** Counts the commands that ran the script so far. */
async function scripts(redis: Redis): Promise<number> {
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1] ?? 0)
}

/** Measures the same command from a process that does nothing else, sequentially. */
async function roundTrip(server: RedisServer): Promise<number> {
  const client = connectRedis({ mode: 'standalone', addresses: [server.address] }, pino({ level: 'silent' }))
  const buckets = new RedisBuckets(new PromptRedis(client), redisKeyPrefix({ kind: 'a', namespace: 'b', name: 'c' }))
  const limits = new Limits(rateLimiting).forTool('b_tool_0')
  const took: number[] = []
  for (let count = 0; count < 2_000; count++) {
    const started = performance.now()
    await buckets.take(limits, 'user')
    took.push(performance.now() - started)
  }
  client.disconnect()
  return median(took)
}

async function measure(bench: Bench, server: RedisServer): Promise<void> {
  const redis = openRedis(server.port)
  try {
    const backend = await start(local('bare-backend.ts'), 'modern')
    const without = await startGateway(bench, backend, 'without limits', {})
    const inMemory = await startGateway(bench, backend, 'four buckets in memory', { rateLimiting })
    const sessionStorage = { redis: { addresses: [server.address] } }
    const inRedis = await startGateway(bench, backend, 'four buckets in Redis', { rateLimiting, sessionStorage })
    const all = [without, inMemory, inRedis]
    for (const { gateway } of all) await load({ origin: gateway.origin, ...WARM_UP, request })
    const before = await scripts(redis)
    for (let left = TURNS; left > 0; left--) for (const one of all) await runTurn(one)
    const rate = ({ requests, cpu }: Measured) => requests / cpu
    for (const one of all)
      console.log(
        `${one.name.padEnd(24)} ${rate(one).toFixed(0).padStart(7)} calls a CPU-second, ${(rate(one) / rate(without)).toFixed(2)} of those without; alone ${median(one.alone).toFixed(3)} ms`,
      )
    const calls = inRedis.requests + inRedis.alone.length
    console.log(`Redis was asked ${(((await scripts(redis)) - before) / calls).toFixed(3)} times a call; to reach: 1`)
    const added = median(inRedis.alone) - median(without.alone)
    console.log(
      `what that adds to a call alone: ${(added / (await roundTrip(server))).toFixed(2)} times as long as that command takes`,
    )
  } finally {
    redis.disconnect()
  }
}

const server = await startRedis()
try {
  await runBench((bench) => measure(bench, server))
} finally {
  await server.stop()
}
