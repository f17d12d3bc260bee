import addressparser from 'nodemailer/lib/addressparser';
import { InvalidMessageError } from '../message/invalid-message.error';
import { line } from './mail-lines';

/** SMTP's limit for a path is 256 octets, with its angle brackets. */
const MAX_BYTES = 254;

/** Addresses in a form that JSON keeps, and how many mailboxes they name. */
export interface CheckedAddresses {
  readonly stored: unknown;
  readonly mailboxes: readonly string[];
}

/**
 * @param value text, an object with `address`, or a list of these
 * @throws {InvalidMessageError} for what no mail can be sent to, and for line breaks, which would add headers
 */
export function checkAddresses(field: string, value: unknown): CheckedAddresses {
  if (Array.isArray(value)) {
    const each = value.map((one, index) => checkAddresses(`${field}[${index}]`, one));
    return {
      stored: each.map(({ stored }) => stored),
      mailboxes: each.flatMap(({ mailboxes }) => mailboxes),
    };
  }
  if (typeof value === 'string') return { stored: value, mailboxes: parse(field, line(field, value)) };
  if (typeof value !== 'object' || value === null || !('address' in value)) {
    throw new InvalidMessageError(field, value, 'Give an address as text, or { name, address }');
  }
  const { address, name } = value as { address: unknown; name?: unknown };
  const stored = {
    ...(name !== undefined && { name: line(`${field}.name`, name) }),
    address: mailbox(`${field}.address`, line(`${field}.address`, address)),
  };
  return { stored, mailboxes: [stored.address] };
}

/** One mailbox: a sender. */
export function checkAddress(field: string, value: unknown): CheckedAddresses & { readonly mailbox: string } {
  const checked = checkAddresses(field, value);
  const [first] = checked.mailboxes;
  if (Array.isArray(value) || checked.mailboxes.length !== 1 || first === undefined) {
    throw new InvalidMessageError(field, value, 'Give exactly one address');
  }
  return { ...checked, mailbox: first };
}

function parse(field: string, text: string): string[] {
  // Without options: `flatten` is unknown to older parsers of nodemailer.
  const entries = addressparser(text).flatMap((entry) => entry.group ?? [entry]);
  return entries.map(({ name, address }) => {
    // The parser is lenient, and takes what stands before for a name: in `ann@a.com bob@b.com` that is a recipient.
    if (name !== '' && !/[<(]/.test(text)) {
      throw new InvalidMessageError(
        field,
        text,
        'Put a comma between two addresses, and an address with a name into angle brackets',
      );
    }
    return mailbox(field, address ?? '', text);
  });
}

function mailbox(field: string, address: string, shown = address): string {
  const at = address.lastIndexOf('@');
  const local = address.slice(0, at);
  const domain = address.slice(at + 1);
  const isQuoted = local.length > 1 && local.startsWith('"') && local.endsWith('"');
  const isFine =
    at > 0 &&
    /^[^\s@<>()[\]\\,;:"]+$|^\[[\w.:-]+\]$/.test(domain) &&
    (isQuoted || /^[^\s@<>()[\]\\,;:"]+$/.test(local));
  if (!isFine) {
    throw new InvalidMessageError(field, shown, 'Give an address such as ann@example.com');
  }
  if (Buffer.byteLength(address) > MAX_BYTES) {
    throw new InvalidMessageError(field, shown, `SMTP allows addresses of ${MAX_BYTES} bytes`);
  }
  return address;
}
