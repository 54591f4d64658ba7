import type { Context } from 'hono'
import { getCookie } from 'hono/cookie'

/** The longest part of a cookie's value. Browsers limit a cookie with its name and attributes to 4,096 bytes. */
const PART = 3_800
const MOST_PARTS = 3

/** The longest sealed session that fits into cookies. */
export const MOST_SEALED = PART * MOST_PARTS

/**
 * The session cookies. Their names begin with `__Host-` and they are Secure, unless the console itself is on plain http
 * on loopback.
 */
export class Cookies {
  readonly #name: string
  readonly #attributes: string

  constructor(isPlain: boolean) {
    this.#name = isPlain ? 'portico-console' : '__Host-portico-console'
    this.#attributes = `Path=/; HttpOnly; SameSite=Lax${isPlain ? '' : '; Secure'}`
  }

  /** Stores a text in up to three cookies, and removes those of an earlier text. */
  set(c: Context, suffix: string, text: string, maxAgeSeconds: number): void {
    for (let part = 0; part < MOST_PARTS; part++) {
      const piece = text.slice(part * PART, (part + 1) * PART)
      const name = `${this.#name}${suffix}.${part + 1}`
      if (piece !== '')
        c.header('set-cookie', `${name}=${piece}; Max-Age=${maxAgeSeconds}; ${this.#attributes}`, { append: true })
      else if (getCookie(c, name) !== undefined || text === '')
        c.header('set-cookie', `${name}=; Max-Age=0; ${this.#attributes}`, { append: true })
    }
  }

  get(c: Context, suffix: string): string {
    const parts = [1, 2, 3].map((part) => getCookie(c, `${this.#name}${suffix}.${part}`) ?? '')
    return parts.join('')
  }
}
