import { readFileSync } from 'node:fs'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import type { Cluster, Context, User } from '@kubernetes/client-node'
import { parse } from 'yaml'
import { isObject } from '../../../crds/settings/json.ts'
import type { ExecSettings } from './exec-credential.ts'

export interface KubeCluster extends Cluster {
  /** The extension `client.authentication.k8s.io/exec`. */
  readonly execConfig?: unknown
}

export interface KubeUser extends User {
  readonly plugin?: ExecSettings
  /** The path of a token file, which is read for each request and wins over a token. */
  readonly tokenFile?: string
  /** The token that is used while that file is missing or empty. */
  readonly spareToken?: string
  readonly impersonation?: Readonly<Record<string, string | readonly string[]>>
}

export interface KubeConfigContent {
  readonly clusters: readonly KubeCluster[]
  readonly users: readonly KubeUser[]
  readonly contexts: readonly Context[]
  readonly currentContext: string
}

interface KubeConfigFiles {
  readonly files: readonly string[]
  /** Called for each missing file, which is then left out. Absent: a missing file is an error. */
  readonly onMissing?: (file: string) => void
}

type Fields = Readonly<Record<string, unknown>>

/**
 * Reads kubeconfigs as kubectl does: the first entry of a name wins, and so does the first current context; paths are
 * relative to their file; data win over files. Throws an Error that names the file.
 */
export function readKubeConfigs({ files, onMissing }: KubeConfigFiles): KubeConfigContent {
  const read = files.flatMap((file) => readOne(resolve(file), onMissing) ?? [])
  return {
    clusters: keepFirstOfName(read.flatMap(({ clusters }) => clusters)),
    users: keepFirstOfName(read.flatMap(({ users }) => users)),
    contexts: keepFirstOfName(read.flatMap(({ contexts }) => contexts)),
    currentContext: read.find(({ currentContext }) => currentContext !== '')?.currentContext ?? '',
  }
}

function keepFirstOfName<T extends { readonly name: string }>(entries: readonly T[]): T[] {
  const byName = new Map<string, T>()
  for (const entry of entries) if (!byName.has(entry.name)) byName.set(entry.name, entry)
  return [...byName.values()]
}

function readOne(file: string, onMissing: KubeConfigFiles['onMissing']): KubeConfigContent | undefined {
  let content: unknown
  try {
    content = parse(readFileSync(file, 'utf8'), { maxAliasCount: 100 })
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' && onMissing !== undefined) {
      onMissing(file)
      return undefined
    }
    // A system error names the file itself.
    throw isSystemError(code) ? error : new Error(`the kubeconfig ${file} is not valid YAML: ${message.slice(0, 300)}`)
  }
  const fields: Fields = isObject(content) ? content : {}
  const folder = dirname(file)
  return {
    clusters: readNamed(fields['clusters'], 'cluster').map(([name, cluster]) => readCluster(name, cluster, folder)),
    users: readNamed(fields['users'], 'user').map(([name, user]) => readUser(name, user, folder)),
    contexts: readNamed(fields['contexts'], 'context').map(([name, context]) => readContext(name, context)),
    currentContext: readText(fields, 'current-context') ?? '',
  }
}

const isSystemError = (code: string | undefined) => code?.startsWith('E') === true

function readNamed(list: unknown, member: string): [string, Fields][] {
  if (!Array.isArray(list)) return []
  return list.filter(isObject).flatMap((entry): [string, Fields][] => {
    const name = readText(entry, 'name')
    const fields = entry[member]
    return name === undefined ? [] : [[name, isObject(fields) ? fields : {}]]
  })
}

/** Returns a text, or undefined if it is absent or empty, as in Go. */
function readText(fields: Fields, name: string): string | undefined {
  const value = fields[name]
  return value === undefined || value === null || value === '' ? undefined : String(value)
}

const readTexts = (fields: Fields, name: string): readonly string[] => {
  const value = fields[name]
  return Array.isArray(value) ? value.map(String) : []
}

function readPath(fields: Fields, name: string, folder: string): string | undefined {
  const path = readText(fields, name)
  return path === undefined || isAbsolute(path) ? path : join(folder, path)
}

/** Returns the data, or else the contents of the file. */
function readMaterial(fields: Fields, name: string, folder: string) {
  const data = readText(fields, `${name}-data`)
  const file = data === undefined ? readPath(fields, name, folder) : undefined
  return { data, file }
}

const present = <T extends object>(members: T) =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))

function readCluster(name: string, fields: Fields, folder: string): KubeCluster {
  const { data: caData, file: caFile } = readMaterial(fields, 'certificate-authority', folder)
  const skips = fields['insecure-skip-tls-verify'] === true
  const given = readText(fields, 'server') ?? ''
  const server = given === '' || given.includes('://') ? given : `http://${given}`
  return {
    name,
    server: server.replace(/\/$/, ''),
    // Otherwise the client refuses a server without TLS, although there is nothing to verify.
    skipTLSVerify: skips || server.startsWith('http:'),
    ...present({
      caData,
      caFile,
      tlsServerName: readText(fields, 'tls-server-name'),
      proxyUrl: readText(fields, 'proxy-url'),
      execConfig: readNamed(fields['extensions'], 'extension').find(
        ([key]) => key === 'client.authentication.k8s.io/exec',
      )?.[1],
    }),
  }
}

function readUser(name: string, fields: Fields, folder: string): KubeUser {
  const { data: certData, file: certFile } = readMaterial(fields, 'client-certificate', folder)
  const { data: keyData, file: keyFile } = readMaterial(fields, 'client-key', folder)
  const tokenFile = readPath(fields, 'tokenFile', folder)
  const token = readText(fields, 'token')
  const authProvider = fields['auth-provider']
  return {
    name,
    impersonation: readImpersonation(fields),
    ...present({
      certData,
      certFile,
      keyData,
      keyFile,
      token: tokenFile === undefined ? token : undefined,
      tokenFile,
      spareToken: tokenFile === undefined ? undefined : token,
      username: readText(fields, 'username'),
      password: readText(fields, 'password'),
      authProvider: isObject(authProvider) ? authProvider : undefined,
      plugin: readPlugin(fields['exec'], folder),
    }),
  }
}

function readImpersonation(fields: Fields): KubeUser['impersonation'] {
  const extra = isObject(fields['as-user-extra']) ? fields['as-user-extra'] : {}
  const groups = readTexts(fields, 'as-groups')
  return present({
    'Impersonate-User': readText(fields, 'as'),
    'Impersonate-Uid': readText(fields, 'as-uid'),
    'Impersonate-Group': groups.length > 0 ? groups : undefined,
    ...Object.fromEntries(
      Object.keys(extra).map((key) => [`Impersonate-Extra-${encodeURIComponent(key)}`, readTexts(extra, key)]),
    ),
  }) as KubeUser['impersonation']
}

/** Reads the plugin. A command with a slash is relative to the kubeconfig; one without is searched in PATH. */
function readPlugin(exec: unknown, folder: string): ExecSettings | undefined {
  if (!isObject(exec)) return undefined
  const command = readText(exec, 'command') ?? ''
  const variables = Array.isArray(exec['env']) ? exec['env'].filter(isObject) : []
  return {
    apiVersion: readText(exec, 'apiVersion') ?? '',
    command: command.includes('/') && !isAbsolute(command) ? join(folder, command) : command,
    args: readTexts(exec, 'args'),
    env: Object.fromEntries(variables.map((one) => [readText(one, 'name') ?? '', readText(one, 'value') ?? ''])),
    installHint: readText(exec, 'installHint'),
    provideClusterInfo: exec['provideClusterInfo'] === true,
    interactiveMode: readText(exec, 'interactiveMode'),
  }
}

function readContext(name: string, fields: Fields): Context {
  const namespace = readText(fields, 'namespace')
  return {
    name,
    cluster: readText(fields, 'cluster') ?? '',
    user: readText(fields, 'user') ?? '',
    ...(namespace !== undefined && { namespace }),
  }
}
