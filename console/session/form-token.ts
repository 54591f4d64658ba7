import { createHmac, hash, timingSafeEqual } from 'node:crypto'

/** Compares two texts in constant time. */
export const isEqual = (left: string, right: string): boolean =>
  timingSafeEqual(Buffer.from(hash('sha256', left, 'hex')), Buffer.from(hash('sha256', right, 'hex')))

/** Returns the token for a form of this session and path. */
export const formToken = (key: Buffer, session: string, path: string): string =>
  createHmac('sha256', key).update(`${session.length} ${session} ${path}`).digest('base64url')

/** Tells whether a token belongs to this session and path. */
export const isFormToken = (token: string, key: Buffer, session: string, path: string): boolean =>
  isEqual(token, formToken(key, session, path))
