import { readFileSync } from 'node:fs'
import { type Dispatcher, request } from 'undici'
import { isObject } from '../../crds/settings/json.ts'
import { boundedAgent, createBoundedAgent } from '../../dataplane/net/bounded-agent.ts'
import type { ConsoleConfig } from '../config/console.ts'

type Settings = NonNullable<ConsoleConfig['metrics']>

/** A series of an answer: its labels and its value. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const TIMEOUT_MS = 10_000
const LARGEST = 8 * 1024 * 1024

/**
 * Queries Prometheus. The console writes every query; a browser supplies only names, which the console has looked up.
 */
export class Prometheus {
  readonly #settings: Settings
  readonly #dispatcher: Dispatcher

  constructor(settings: Settings) {
    this.#settings = settings
    const ca = settings.caBundleFile
    this.#dispatcher = ca === undefined ? boundedAgent : createBoundedAgent({ ca: readFileSync(ca, 'utf8') })
  }

  /**
   * Runs an instant query at a time (seconds since 1970). Throws an Error if Prometheus does not answer with success.
   */
  async query(query: string, time: number): Promise<readonly Sample[]> {
    const { prometheusUrl, bearerTokenFile } = this.#settings
    const token = bearerTokenFile === undefined ? undefined : readFileSync(bearerTokenFile, 'utf8').trim()
    const { body, statusCode } = await request(`${prometheusUrl.replace(/\/$/, '')}/api/v1/query`, {
      method: 'POST',
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      body: new URLSearchParams({ query, time: String(time) }).toString(),
      headersTimeout: TIMEOUT_MS,
      bodyTimeout: TIMEOUT_MS,
      signal: AbortSignal.timeout(2 * TIMEOUT_MS),
      dispatcher: this.#dispatcher,
    })
    const chunks: Buffer[] = []
    let size = 0
    for await (const chunk of body as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > LARGEST) throw new Error('the answer is too long')
      chunks.push(chunk)
    }
    if (statusCode !== 200) throw new Error(`HTTP ${statusCode}`)
    const { data } = JSON.parse(Buffer.concat(chunks).toString()) as { data?: unknown }
    const { result } = isObject(data) ? data : {}
    return (Array.isArray(result) ? result.filter(isObject) : []).flatMap(readSample)
  }
}

function readSample({ metric, value }: Readonly<Record<string, unknown>>): readonly Sample[] {
  const number = Array.isArray(value) ? Number(value[1]) : Number.NaN
  if (!isObject(metric) || !Number.isFinite(number)) return []
  const labels = Object.entries(metric).filter((label): label is [string, string] => typeof label[1] === 'string')
  return [{ labels: Object.fromEntries(labels), value: number }]
}
