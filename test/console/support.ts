import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventually } from '../support/eventually.ts'
import { type TemporaryFolder, temporaryFolder } from '../support/folder.ts'
import { ownHost } from '../support/gateway/own-host.ts'
import { RunningPortico } from '../support/operator/running-portico.ts'
import { object } from '../support/operator/standalone-run.ts'

const repository = join(import.meta.dirname, '../..')
export const clock = `${JSON.stringify(process.execPath)} ${join(repository, 'samples/quickstart/clock-server.ts')}`

export const group = object('MCPGroup', 'all', 'spec: {}\n')
export const gateway = (name: string, rest = '') =>
  object('VirtualMCPServer', name, `spec:\n  groupRef: {name: all}\n  incomingAuth: {type: anonymous}\n${rest}`)
export const server = (name: string, command = clock) =>
  object(
    'MCPServer',
    name,
    `  annotations: {portico.dev/local-command: ${JSON.stringify(command)}}\nspec:\n  image: x/y:1.0.0\n  transport: streamable-http\n  groupRef: {name: all}\n`,
  )

interface Line {
  readonly endpoints: readonly { readonly kind: string; readonly url: string }[]
  readonly console: { readonly open: string }
}

/** Runs `portico run` over manifests and opens its console. The ports of its workloads are used by no other test file. */
export class OpenConsole implements AsyncDisposable {
  readonly folder: TemporaryFolder
  readonly portico: RunningPortico
  url = ''
  cookie = ''
  #given = ''

  private constructor(folder: TemporaryFolder, portico: RunningPortico) {
    this.folder = folder
    this.portico = portico
  }

  /** Resolves when everything serves and the gateways have tried every server. */
  static async start(
    manifests: string,
    args: readonly string[] = [],
    env: Readonly<Record<string, string>> = {},
  ): Promise<OpenConsole> {
    const folder = temporaryFolder()
    writeFileSync(join(folder.path, 'all.yaml'), manifests)
    const file = join(folder.path, 'all.yaml')
    const command = [file, '--host', ownHost, '--state', join(folder.path, 'state'), ...args]
    const portico = new RunningPortico(command, env)
    const one = new OpenConsole(folder, portico)
    await portico.ready()
    one.url = one.line.endpoints.find(({ kind }) => kind === 'Console')?.url ?? ''
    return one
  }

  get line(): Line {
    return this.portico.reports.at(-1) as unknown as Line
  }

  /** Returns the link that lets the next browser in. Each works once, and the next is reported a moment later. */
  async link(): Promise<string> {
    await eventually('the next link is printed', () => this.line.console.open !== this.#given)
    this.#given = this.line.console.open
    return this.#given
  }

  /** Exchanges the link for a cookie. */
  async open(): Promise<void> {
    const answer = await fetch(await this.link(), { redirect: 'manual' })
    this.cookie = answer.headers.get('set-cookie')?.split(';')[0] ?? ''
  }

  get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
    return fetch(`${this.url}${path}`, { headers: { cookie: this.cookie, ...headers }, redirect: 'manual' })
  }

  async text(path: string): Promise<string> {
    return (await this.get(path)).text()
  }

  // biome-ignore lint/suspicious/noExplicitAny: each page has facts of its own
  async json(path: string): Promise<any> {
    return (await this.get(path, { accept: 'application/json' })).json()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.portico.stop()
    this.folder[Symbol.dispose]()
  }
}
