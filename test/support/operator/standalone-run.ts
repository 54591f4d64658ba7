import { join } from 'node:path'
import type { Report } from '../../../operator/standalone/report.ts'
import { Standalone } from '../../../operator/standalone/standalone.ts'
import { eventually } from '../eventually.ts'
import type { TemporaryFolder } from '../folder.ts'
import { ownHost } from '../gateway/own-host.ts'
import { porticoProgram } from '../portico-program.ts'

/** Standalone mode over the manifests of a folder, with all its reports. */
export class StandaloneRun {
  readonly reports: { readonly report: Report; readonly changes: readonly string[] }[] = []
  readonly lines: string[] = []
  readonly #standalone: Standalone

  constructor(folder: TemporaryFolder) {
    this.#standalone = new Standalone({
      paths: [join(folder.path, 'manifests')],
      state: join(folder.path, 'state'),
      host: ownHost,
      group: undefined,
      self: porticoProgram,
      environment: process.env,
      onReport: (report, changes) => this.reports.push({ report, changes }),
      show: (line) => this.lines.push(line),
      isVerbose: true,
    })
    this.#standalone.start()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#standalone.close()
  }

  get now(): Report | undefined {
    return this.reports.at(-1)?.report
  }

  async until(what: string, condition: (report: Report) => boolean): Promise<Report> {
    try {
      await eventually(what, () => this.now !== undefined && condition(this.now))
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${JSON.stringify(this.now, null, 1)}\n${this.lines.join('\n')}`, {
        cause: error,
      })
    }
    return this.now as Report
  }

  /** Calls a function, and waits for the report of what it changed. */
  async changesAfter(edit: () => void): Promise<readonly string[]> {
    const before = this.reports.length
    edit()
    const listChanges = () => this.reports.slice(before).flatMap(({ changes }) => changes)
    await eventually('a report has changed', () => listChanges().length > 0)
    return listChanges()
  }
}

/** Returns a manifest of one of our kinds; `rest` follows the name. */
export const object = (kind: string, name: string, rest: string) =>
  `apiVersion: portico.dev/v1beta1\nkind: ${kind}\nmetadata:\n  name: ${name}\n${rest}`

/** A script of an HTTP server that answers, but not as an MCP server would. */
export const listening = `require('http').createServer((q, r) => r.writeHead(405).end()).listen(process.env.PORT, process.env.HOST)`

/** Returns an MCPServer that starts a command on this machine; `spec` follows its other fields. */
export const server = (name: string, command: string, spec = '') =>
  object(
    'MCPServer',
    name,
    `  annotations:\n    portico.dev/local-command: ${JSON.stringify(command)}\nspec:\n  image: someone/server\n  transport: streamable-http\n${spec}`,
  )
