import { backendFindings } from '../../../dataplane/config/check/gateway.ts'
import type { BackendConfig } from '../../../dataplane/config/gateway.ts'
import { type Given, type Io, UsageError } from '../../command.ts'
import { version } from '../../package-info.ts'
import { formatFindings } from '../report.ts'
import { type BackendDiagnosis, checkBackend } from './check-backend.ts'

/** Runs `portico doctor backend URL …`. */
export async function checkBackends(urls: readonly string[], given: Given, io: Io): Promise<number> {
  if (urls.length === 0) throw new UsageError('the URL of an MCP server is missing')
  const configs = urls.map((url) => readBackend(url, given))
  const diagnoses = await Promise.all(configs.map((config) => checkBackend(config, version)))
  if (given.text('output') === 'json') io.out(`${JSON.stringify({ backends: diagnoses })}\n`)
  else io.out(diagnoses.map(formatBackend).join('\n'))
  return diagnoses.some(({ findings }) => findings.some(({ severity }) => severity === 'error')) ? 1 : 0
}

function readBackend(url: string, given: Given): BackendConfig {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) throw new UsageError(`${url} is not a URL of http or https`)
  const caBundleFile = given.text('ca-bundle')
  const config: BackendConfig = {
    name: 'backend',
    url,
    transport: given.text('transport') as NonNullable<BackendConfig['transport']>,
    headers: Object.fromEntries(given.texts('header').map((text) => parsePair('header', text))),
    headerFiles: given.texts('header-file').map((text) => {
      const [name, file] = parsePair('header-file', text)
      return { name, file }
    }),
    ...(caBundleFile === undefined ? {} : { caBundleFile }),
  }
  const [wrong] = backendFindings(config, '')
  if (wrong !== undefined) throw new UsageError(`${wrong.pointer.slice(1)}: ${wrong.message}`)
  return config
}

function parsePair(option: string, text: string): readonly [string, string] {
  const at = text.indexOf('=')
  if (at < 1) throw new UsageError(`--${option} takes NAME=${option === 'header' ? 'VALUE' : 'FILE'}`)
  return [text.slice(0, at), text.slice(at + 1)]
}

const ERAS = { session: 'sessions', stateless: 'stateless' } as const

function formatBackend({ url, era, revision, findings }: BackendDiagnosis): string {
  const about = era === undefined ? 'era unknown' : `${ERAS[era]}${revision === undefined ? '' : `, ${revision}`}`
  return [`${url} (${about})`, ...formatFindings(findings), ''].join('\n')
}
