/** Locations of servers, in a form in which those of the catalog and those of backends can be compared. */

/**
 * Normalizes a URL, so that URLs of the same location are equal (RFC 3986, section 6). The fragment is removed. Returns
 * undefined for a text that is no http or https URL, and for a URL with credentials.
 */
export function comparableUrl(text: string): string | undefined {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) return undefined
  // A parser drops an empty `@`, but other parsers may interpret it differently.
  if (url.username !== '' || url.password !== '' || findAuthority(text).includes('@')) return undefined
  const host = url.hostname.replace(/\.$/, '')
  if (host === '') return undefined
  const port = url.port === '' ? '' : `:${url.port}`
  return `${url.protocol}//${host}${port}${plainEscapes(url.pathname)}${plainEscapes(url.search)}`
}

/** Returns the part of a URL that may contain credentials, as written. */
const findAuthority = (text: string): string => /^[^/\\]*[/\\]*([^/\\?#]*)/.exec(text.trim())?.[1] ?? ''

/** Decodes escapes of unreserved characters, and writes the others in upper case (RFC 3986, section 6.2.2). */
const plainEscapes = (text: string): string =>
  text.replace(/%[0-9a-f]{2}/gi, (octet) => {
    const character = String.fromCharCode(Number.parseInt(octet.slice(1), 16))
    return /[A-Za-z0-9._~-]/.test(character) ? character : octet.toUpperCase()
  })

export interface Image {
  readonly repository: string
  /** The tag; undefined if a digest alone identifies the image. */
  readonly tag: string | undefined
  readonly digest: string | undefined
}

const DOCKER = 'docker.io'
const DIGEST = /^sha256:[0-9a-f]{64}$/

/** Parses an image reference (`ghcr.io/acme/tool:1.2@sha256:…`); undefined if it is invalid. */
export function parseImage(text: string): Image | undefined {
  const [name = '', digest, ...more] = text.trim().split('@')
  if (more.length > 0 || (digest !== undefined && !DIGEST.test(digest))) return undefined
  const parts = /^(.+?)(?::([\w][\w.-]{0,127}))?$/.exec(name)
  const path = parts?.[1]
  if (path === undefined || !/^[\w./:-]+$/.test(path)) return undefined
  const tag = parts?.[2] ?? (digest === undefined ? 'latest' : undefined)
  return { repository: fullRepository(path), tag, digest }
}

function fullRepository(path: string): string {
  const [first = '', ...rest] = path.split('/')
  const hasHost = rest.length > 0 && (first.includes('.') || first.includes(':') || first === 'localhost')
  if (!hasHost) return `${DOCKER}/${rest.length === 0 ? 'library/' : ''}${path}`
  const host = first.toLowerCase().replace(/^(index|registry-1)\.docker\.io$/, DOCKER)
  const inHost = rest.join('/')
  return `${host}/${host === DOCKER && rest.length === 1 ? 'library/' : ''}${inHost}`
}

export interface Package {
  readonly registryType?: string
  readonly registryBaseUrl?: string
  readonly identifier?: string
  readonly version?: string
}

/** Returns the image of a package in an entry; undefined if it has none. */
export function packageImage({ registryType, registryBaseUrl, identifier, version }: Package): Image | undefined {
  if (registryType !== 'oci' || identifier === undefined) return undefined
  const base = registryBaseUrl === undefined ? undefined : URL.parse(registryBaseUrl)
  if (base === null) return undefined
  const image = parseImage(identifier)
  if (image === undefined) return undefined
  const hasTag = identifier.includes('@') || /:[^/]*$/.test(identifier)
  const repository = base === undefined ? image.repository : locateInHost(base.host, identifier, image.repository)
  if (hasTag || version === undefined) return { ...image, repository }
  if (DIGEST.test(version)) return { repository, tag: undefined, digest: version }
  return { ...image, repository, tag: version }
}

/** Returns the repository of an identifier at a registry host. An identifier with its own host stays unchanged. */
function locateInHost(host: string, identifier: string, repository: string): string {
  const isBare = repository !== fullRepository(`${host}/${identifier}`) && repository.startsWith(`${DOCKER}/`)
  if (!isBare || identifier.toLowerCase().startsWith(`${DOCKER}/`)) return repository
  return (parseImage(`${host}/${identifier}`) ?? { repository }).repository
}

/**
 * Tells whether the catalog's image is the running one. If the catalog has a digest, the digest must match; if it has a
 * tag, the tag must match and the running image must have no digest.
 */
export function isSameImage(approved: Image, running: Image): boolean {
  if (approved.repository !== running.repository) return false
  if (approved.digest !== undefined) return approved.digest === running.digest
  return running.digest === undefined && approved.tag === running.tag
}
