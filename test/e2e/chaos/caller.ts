/** A client that keeps calling a tool. It may get no answer while a part is down, but never a wrong one. */
import { setTimeout as delay } from 'node:timers/promises'
import { connect, readText } from '../../support/gateway/clients.ts'

const PATIENCE = { timeout: 20_000 }
/**
 * The allowed tools of the servers behind the gateway `front`, with their prefix; tools that a filter removes are left
 * out.
 */
const MAY_BE_SHOWN = ['echo', 'get-sum', 'get-structured-content', 'get-tiny-image'].map((name) => `everything_${name}`)

export class Caller {
  answered = 0
  failed = 0
  readonly wrong: string[] = []
  readonly #url: string
  readonly #era: 'modern' | 'legacy'
  #stopped = false
  readonly #running: Promise<void>

  constructor(url: string, era: 'modern' | 'legacy') {
    this.#url = url
    this.#era = era
    this.#running = this.#run()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#running
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      try {
        await this.#callUntilItFails()
      } catch {
        this.failed += 1
      }
      await delay(200)
    }
  }

  /** Makes calls on one connection. */
  async #callUntilItFails(): Promise<void> {
    const { client } = await connect(this.#url, this.#era)
    try {
      while (!this.#stopped) {
        const message = `${this.#era} ${this.answered} ${this.failed}`
        const result = await client.callTool({ name: 'everything_echo', arguments: { message } }, PATIENCE)
        if (result.isError) throw new Error(readText(result))
        const text = readText(result)
        if (text !== `Echo: ${message}`) this.wrong.push(`${message}: ${text.slice(0, 200)}`)
        const { tools } = await client.listTools({}, PATIENCE)
        for (const { name } of tools) if (!MAY_BE_SHOWN.includes(name)) this.wrong.push(`${name} is shown`)
        this.answered += 1
        await delay(100)
      }
    } finally {
      await client.close().catch(() => {})
    }
  }
}
