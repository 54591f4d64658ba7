/** The places of servers, in the form in which those of the catalog and those of backends are compared. */

/**
 * Returns a URL in the form in which two that lead to the same place are equal (RFC 3986, section 6), without fragment.
 * Undefined for what is no http or https URL, and for one with credentials.
 */
export function comparableUrl(text: string): string | undefined {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) return undefined
  // A parser drops an empty `@`; what another one makes of it nobody knows.
  if (url.username !== '' || url.password !== '' || authorityOf(text).includes('@')) return undefined
  const host = url.hostname.replace(/\.$/, '')
  if (host === '') return undefined
  const port = url.port === '' ? '' : `:${url.port}`
  return `${url.protocol}//${host}${port}${plainEscapes(url.pathname)}${plainEscapes(url.search)}`
}

/** Returns the part of a URL in which credentials may stand, as it was written. */
const authorityOf = (text: string): string => /^[^/\\]*[/\\]*([^/\\?#]*)/.exec(text.trim())?.[1] ?? ''

/** Decodes escapes of unreserved characters, and writes the others in upper case (RFC 3986, section 6.2.2). */
const plainEscapes = (text: string): string =>
  text.replace(/%[0-9a-f]{2}/gi, (octet) => {
    const character = String.fromCharCode(Number.parseInt(octet.slice(1), 16))
    return /[A-Za-z0-9._~-]/.test(character) ? character : octet.toUpperCase()
  })

export interface Image {
  readonly repository: string
  /** The tag; undefined where a digest alone says which image it is. */
  readonly tag: string | undefined
  readonly digest: string | undefined
}

const DOCKER = 'docker.io'
const DIGEST = /^sha256:[0-9a-f]{64}$/

/** Reads an image as containers name it (`ghcr.io/acme/tool:1.2@sha256:…`); undefined if it is none. */
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

/** Returns the image that a package of an entry names; undefined if it names none. */
export function packageImage({ registryType, registryBaseUrl, identifier, version }: Package): Image | undefined {
  if (registryType !== 'oci' || identifier === undefined) return undefined
  const base = registryBaseUrl === undefined ? undefined : URL.parse(registryBaseUrl)
  if (base === null) return undefined
  const image = parseImage(identifier)
  if (image === undefined) return undefined
  const hasTag = identifier.includes('@') || /:[^/]*$/.test(identifier)
  const repository = base === undefined ? image.repository : inHost(base.host, identifier, image.repository)
  if (hasTag || version === undefined) return { ...image, repository }
  if (DIGEST.test(version)) return { repository, tag: undefined, digest: version }
  return { ...image, repository, tag: version }
}

/** Returns the repository of an identifier in a host; one that names a host itself stays. */
function inHost(host: string, identifier: string, repository: string): string {
  const isBare = repository !== fullRepository(`${host}/${identifier}`) && repository.startsWith(`${DOCKER}/`)
  if (!isBare || identifier.toLowerCase().startsWith(`${DOCKER}/`)) return repository
  return (parseImage(`${host}/${identifier}`) ?? { repository }).repository
}

/**
 * Tells whether the catalog's image is the one that runs. A digest in the catalog asks for that digest, a tag for that
 * tag and no digest.
 */
export function isSameImage(approved: Image, running: Image): boolean {
  if (approved.repository !== running.repository) return false
  if (approved.digest !== undefined) return approved.digest === running.digest
  return running.digest === undefined && approved.tag === running.tag
}
