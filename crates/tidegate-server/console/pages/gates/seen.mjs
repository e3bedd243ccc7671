import { useEffect, useRef, useState } from '../../lib/html.mjs';

/** @type {WeakMap<Element, (yes: boolean) => void>} */
const told = new WeakMap();
/** @type {IntersectionObserver | null} */
let observer = null;

/** Whether an element is in or near the viewport. */
export function useSeen() {
  const [seen, setSeen] = useState(false);
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    observer ??= new IntersectionObserver((entries) => entries.forEach((it) => told.get(it.target)?.(it.isIntersecting)), { rootMargin: '120px' });
    told.set(element, setSeen);
    observer.observe(element);
    return () => observer?.unobserve(element);
  }, []);
  return { ref, seen };
}
