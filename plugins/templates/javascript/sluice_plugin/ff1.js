// FF1 of NIST SP 800-38G, for tests in Node: in a component the host does it.
import { createCipheriv } from 'node:crypto';

const BLOCK = 16;
const ROUNDS = 10;

/** Encrypts digits (numbers below `radix`, at least two) under an AES-256 key. The letters are those of algorithm 7. */
export function ff1Encrypt(key, tweak, radix, digits) {
  const aes = (block) => {
    const cipher = createCipheriv('aes-256-ecb', key, null).setAutoPadding(false);
    return Buffer.concat([cipher.update(block), cipher.final()]);
  };
  const n = digits.length;
  const u = Math.floor(n / 2);
  const v = n - u;
  let a = digits.slice(0, u);
  let b = digits.slice(u);
  const bits = (BigInt(radix) ** BigInt(v) - 1n).toString(2).length;
  const size = Math.ceil(bits / 8);
  const d = 4 * Math.ceil(size / 4) + 4;
  const p = Buffer.alloc(BLOCK);
  p.set([1, 2, 1]);
  p.writeUIntBE(radix, 3, 3);
  p.set([ROUNDS, u % 256], 6);
  p.writeUInt32BE(n, 8);
  p.writeUInt32BE(tweak.length, 12);
  const zeros = (((-tweak.length - size - 1) % BLOCK) + BLOCK) % BLOCK;
  for (let round = 0; round < ROUNDS; round += 1) {
    const q = Buffer.concat([tweak, Buffer.alloc(zeros), Buffer.from([round]), toBytes(toNumber(b, radix), size)]);
    let r = Buffer.alloc(BLOCK);
    for (let at = 0; at < BLOCK + q.length; at += BLOCK) {
      const block = at === 0 ? p : q.subarray(at - BLOCK, at);
      r = aes(xor(r, block));
    }
    const blocks = [r];
    for (let j = 1; blocks.length * BLOCK < d; j += 1) blocks.push(aes(xor(r, toBytes(BigInt(j), BLOCK))));
    const y = BigInt(`0x${Buffer.concat(blocks).subarray(0, d).toString('hex')}`);
    const m = round % 2 === 0 ? u : v;
    const c = (toNumber(a, radix) + y) % BigInt(radix) ** BigInt(m);
    a = b;
    b = toDigits(c, radix, m);
  }
  return [...a, ...b];
}

function toNumber(digits, radix) {
  return digits.reduce((number, digit) => number * BigInt(radix) + BigInt(digit), 0n);
}

function toDigits(number, radix, length) {
  const digits = new Array(length);
  for (let at = length - 1; at >= 0; at -= 1) {
    digits[at] = Number(number % BigInt(radix));
    number /= BigInt(radix);
  }
  return digits;
}

function toBytes(number, size) {
  return Buffer.from(number.toString(16).padStart(2 * size, '0'), 'hex');
}

function xor(a, b) {
  return Buffer.from(a.map((byte, at) => byte ^ b[at]));
}
