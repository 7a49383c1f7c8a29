import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipInputStream;

/**
 * Prints the options that Flink's jars define, one line each: key, type, default, choices, older keys and class, with tabs between.
 *
 * <p>Run by tools/gen_flink_options.py: java ListFlinkOptions.java DIRECTORY_OF_JARS...
 */
public final class ListFlinkOptions {
    private static final String DESCRIPTOR = "Lorg/apache/flink/configuration/ConfigOption;";

    private final List<Path> jars = new ArrayList<>();
    private final TreeSet<String> classes = new TreeSet<>();
    private final Map<String, String> lines = new TreeMap<>();

    public static void main(String[] directories) throws Exception {
        ListFlinkOptions list = new ListFlinkOptions();
        for (String directory : directories) {
            try (Stream<Path> files = Files.walk(Path.of(directory))) {
                for (Path jar : files.filter(file -> file.toString().endsWith(".jar")).sorted().toList()) {
                    list.addJar(jar);
                }
            }
        }
        list.readOptions();
        list.lines.values().forEach(System.out::println);
    }

    private void addJar(Path jar) throws IOException {
        jars.add(jar);
        try (InputStream stream = Files.newInputStream(jar)) {
            scan(new ZipInputStream(stream));
        }
    }

    /** Notes the classes that mention ConfigOption in a field or method; a jar inside of a jar is unpacked first. */
    private void scan(ZipInputStream zip) throws IOException {
        for (ZipEntry entry = zip.getNextEntry(); entry != null; entry = zip.getNextEntry()) {
            String name = entry.getName();
            if (name.endsWith(".jar")) {
                Path unpacked = Files.createTempFile("flink-inner", ".jar");
                unpacked.toFile().deleteOnExit();
                byte[] inner = zip.readAllBytes();
                Files.write(unpacked, inner);
                jars.add(unpacked);
                scan(new ZipInputStream(new ByteArrayInputStream(inner)));
            } else if (name.startsWith("org/apache/flink/") && name.endsWith(".class") && !name.contains("/shaded/")) {
                if (new String(zip.readAllBytes(), StandardCharsets.ISO_8859_1).contains(DESCRIPTOR)) {
                    classes.add(name.substring(0, name.length() - ".class".length()).replace('/', '.'));
                }
            }
        }
    }

    private void readOptions() throws Exception {
        URL[] urls = new URL[jars.size()];
        for (int i = 0; i < urls.length; i++) {
            urls[i] = jars.get(i).toUri().toURL();
        }
        URLClassLoader loader = new URLClassLoader(urls);
        Class<?> optionType = loader.loadClass("org.apache.flink.configuration.ConfigOption");
        for (String name : classes) {
            try {
                for (Field field : Class.forName(name, false, loader).getDeclaredFields()) {
                    if (field.getType() == optionType && Modifier.isStatic(field.getModifiers())) {
                        field.setAccessible(true);
                        add(field.get(null), name);
                    }
                }
            } catch (LinkageError error) {
                System.err.println("left out " + name + ": " + error);
            }
        }
    }

    private void add(Object option, String owner) throws Exception {
        String key = (String) call(option, "key");
        Class<?> type = (Class<?>) call(option, "getClazz");
        boolean list = (Boolean) call(option, "isList");
        List<String> older = new ArrayList<>();
        for (Object fallback : (Iterable<?>) call(option, "fallbackKeys")) {
            if ((Boolean) call(fallback, "isDeprecated")) {
                older.add((String) call(fallback, "getKey"));
            }
        }
        Object[] constants = type.getEnumConstants();
        String choices = constants == null ? ""
                : Stream.of(constants).map(String::valueOf).collect(Collectors.joining(","));
        String line = String.join("\t", key, (list ? "List<" : "") + type.getSimpleName() + (list ? ">" : ""),
                text(call(option, "defaultValue")), choices, String.join(",", older), owner);
        lines.put(key + "\t" + owner, line);
    }

    private static String text(Object value) {
        if (value == null) {
            return "";
        }
        if (value instanceof Duration duration) {
            return duration.toMillis() + " ms";
        }
        if (value instanceof List<?> items) {
            return items.stream().map(String::valueOf).collect(Collectors.joining(";"));
        }
        if (value instanceof Map<?, ?> entries) {
            return entries.entrySet().stream().map(entry -> entry.getKey() + ":" + entry.getValue()).sorted()
                    .collect(Collectors.joining(","));
        }
        return String.valueOf(value).replace("\t", " ").replace("\n", " ");
    }

    private static Object call(Object target, String name) throws Exception {
        Method method = target.getClass().getDeclaredMethod(name);
        method.setAccessible(true);
        return method.invoke(target);
    }
}
