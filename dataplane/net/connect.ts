import { type LookupAddress, lookup } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { createSecureContext, getCACertificates } from 'node:tls'
import { type buildConnector, type Dispatcher, Pool } from 'undici'
import { type AddressClass, classifyAddress } from '../config/check/address.ts'
import { secretFile } from '../config/secret-file.ts'
import { boundedConnector } from './bound-heads.ts'
import { buildMessageConnector } from './small-messages.ts'

export interface ConnectOptions {
  /** PEM file of CAs that are trusted besides the system's; reread when it changes. */
  readonly caBundleFile?: string | undefined
  readonly allowPrivateIP?: boolean | undefined
  /** Loopback addresses may be called, private ones only under `allowPrivateIP`. */
  readonly allowLoopback?: boolean | undefined
  /** Any address may be called, because whoever runs this process named it. */
  readonly allowAny?: boolean | undefined
  readonly connectTimeoutMs?: number | undefined
}

interface DispatcherOptions extends ConnectOptions {
  /** `https://host:port` of the one origin that is called. */
  readonly origin: string
  /** Most connections at a time, including open streams; default 128. */
  readonly connections?: number
}

/** A host whose address must not be called. The message is for the log only: it reveals the addresses of a name. */
export class AddressRefused extends Error {
  override readonly name = 'AddressRefused'
  readonly code = 'ERR_ADDRESS_REFUSED'
  readonly addressClass: AddressClass

  constructor(host: string, addressClass: AddressClass) {
    super(`${host} is a ${addressClass === 'never' ? 'reserved or link-local' : addressClass} address`)
    this.addressClass = addressClass
  }
}

const CONNECT_TIMEOUT_MS = 5_000

/**
 * Makes undici's `connect`. It checks all addresses of a name and connects to a checked one, so that DNS rebinding
 * gains nothing.
 */
export function guardedConnect(options: ConnectOptions): buildConnector.connector {
  const connectorFor = connectors(options)
  return function connect(target, callback) {
    const host = target.hostname.replace(/^\[|\]$/g, '')
    if (isIP(host) !== 0 && !allowed(host, options)) {
      callback(new AddressRefused(host, classifyAddress(host)), null)
      return
    }
    let connector: buildConnector.connector
    try {
      connector = connectorFor()
    } catch (error) {
      callback(error as Error, null)
      return
    }
    boundedConnector(connector)(target, callback)
  }
}

function allowed(address: string, { allowPrivateIP, allowLoopback, allowAny }: ConnectOptions): boolean {
  if (allowAny === true) return true
  switch (classifyAddress(address)) {
    case 'public':
      return true
    case 'private':
      return allowPrivateIP === true
    case 'loopback':
      return allowPrivateIP === true || allowLoopback === true
    case 'never':
      return false
  }
}

/** Returns the connector for the current CA bundle, and makes a new one when the bundle has changed. */
function connectors(options: ConnectOptions): () => buildConnector.connector {
  const base = {
    timeout: options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
    // A connection carries one request at a time, so that a slow stream does not hold up others. HTTP/2 is off.
    allowH2: false,
    lookup: guardedLookup(options),
  }
  if (options.caBundleFile === undefined) {
    const connector = buildMessageConnector(base)
    return () => connector
  }
  const readBundle = secretFile(options.caBundleFile)
  let bundle: string | undefined
  let connector: buildConnector.connector
  return () => {
    const current = readBundle()
    if (current !== bundle) {
      const secureContext = createSecureContext({ ca: [...getCACertificates('default'), current] })
      connector = buildMessageConnector({ ...base, secureContext })
      bundle = current
    }
    return connector
  }
}

/** Makes a lookup that returns no address if any of a name's addresses must not be called. */
export function guardedLookup(options: ConnectOptions, resolve = lookup as LookupFunction): LookupFunction {
  return (hostname, lookupOptions, callback) => {
    resolve(hostname, { ...lookupOptions, all: true }, (error, found) => {
      const addresses = found as unknown as LookupAddress[]
      if (error !== null) return callback(error, [])
      const refused = addresses.find(({ address }) => !allowed(address, options))
      if (refused !== undefined) return callback(new AddressRefused(hostname, classifyAddress(refused.address)), [])
      if (lookupOptions.all === true) return callback(null, addresses)
      const [first] = addresses
      return first === undefined
        ? callback(Object.assign(new Error(`no address was found for ${hostname}`), { code: 'ENOTFOUND' }), [])
        : callback(null, first.address, first.family)
    })
  }
}

/**
 * Creates a pool of keep-alive connections to one origin. It follows no redirects. Only connecting has a timeout: a
 * stream may be silent for hours. An idle connection is closed two seconds before the server says that it would close
 * it, and after four seconds if it says nothing: uvicorn, on which most servers in Python run, closes it after five, and
 * a call that it no longer reads would fail.
 */
export function createDispatcher({ origin, connections, ...connect }: DispatcherOptions): Dispatcher {
  return new Pool(origin, {
    connect: guardedConnect(connect),
    connections: connections ?? 128,
    pipelining: 1,
    keepAliveTimeout: 4_000,
    keepAliveTimeoutThreshold: 2_000,
    headersTimeout: 0,
    bodyTimeout: 0,
  })
}
