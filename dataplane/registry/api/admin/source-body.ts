import { isIP } from 'node:net'
import { classOf } from '../../../config/check/address.ts'
import { sourceFindings } from '../../../config/check/registry-source.ts'
import { isLoopback } from '../../../config/check/url.ts'
import type { SourceConfig } from '../../../config/registry/registry.ts'
import type { ErrorDetail } from '../../../server/errors.ts'

type SourceBody = Omit<SourceConfig, 'name'>

/**
 * What is wrong with a source that comes through the API, besides its schema (which has no fields for files of this
 * machine). Whoever may create sources may not make this server call into the network that it stands in.
 */
export function apiSourceFindings(source: SourceBody, privateSources: 'allow' | 'deny'): readonly ErrorDetail[] {
  return [...sourceFindings(source, ''), ...addressFindings(source, privateSources)]
}

function addressFindings({ git, api, file }: SourceBody, privateSources: 'allow' | 'deny'): readonly ErrorDetail[] {
  const places = [
    [git?.repository, '/git/repository'],
    [api?.endpoint, '/api/endpoint'],
    [file?.url, '/file/url'],
  ] as const
  return places.flatMap(([text, pointer]) => {
    if (text === undefined) return []
    const url = URL.parse(text)
    if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:'))
      return [{ pointer, message: 'must be an http or https URL' }]
    if (privateSources === 'allow' || isPublic(url)) return []
    return [{ pointer, message: 'is not a public address' }]
  })
}

/** Whether an address is public. A name is resolved and checked when it is called. */
function isPublic(url: URL): boolean {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  return !isLoopback(url) && (isIP(host) === 0 || classOf(host) === 'public')
}
